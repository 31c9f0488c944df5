from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch
from dense import all_rows
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import mutual_info_score
from strategies import graphs, make_graph

from xtcl.errors import DataError, UsageError
from xtcl.graph.datasets.load import load_dataset
from xtcl.graph.datasets.synthetic import block_model
from xtcl.graph.graph import Graph
from xtcl.lab.experiments import perturbation as module
from xtcl.lab.experiments.perturbation import (
    Rule,
    above_among,
    above_pairs,
    label_information,
    least_similar_first,
    perturb_labels,
    visiting_order,
)
from xtcl.relations.registry import make_relation
from xtcl.relations.sparse import SparseRows
from xtcl.relations.view import TrainingView

RULES: tuple[Rule, ...] = ("copy", "vote")


def labels_of(graph: Graph) -> np.ndarray:
    assert graph.labels is not None
    return graph.labels


def plain_perturbation(
    graph: Graph, pairs: SparseRows, number: int, ratio: float, rule: Rule, seed: int
) -> tuple[dict[int, int], list[int]]:
    """Algorithm 2 in sets and loops: labels by node, and the perturbed nodes in their order."""
    old = {node: int(label) for node, label in enumerate(labels_of(graph))}
    new = dict(old)
    rng = np.random.default_rng(seed)
    starts = [int(u) for u in rng.permutation([u for u in old if old[u] >= 0])]
    rows = listed(pairs)
    above = {u: [v for v in rows[u] if old[v] >= 0] for u in starts}
    perturbed: list[int] = []
    stack: list[int] = []
    while len(perturbed) < number:
        u = stack.pop() if stack else starts.pop(0)
        if u in perturbed:
            continue
        perturbed.append(u)
        stack += above[u]
        if rule == "copy":
            for v in above[u]:
                if rng.random() < ratio and v not in perturbed:
                    new[v] = new[u]
        elif rng.random() < ratio and above[u]:
            votes = Counter(new[v] for v in above[u])
            best = max(votes.values())
            if votes[new[u]] < best:
                new[u] = min(label for label in votes if votes[label] == best)
    return {node: new[node] if node in perturbed else old[node] for node in old}, perturbed


def perturbed_nodes(graph: Graph, pairs: SparseRows, number: int, seed: int) -> list[int]:
    """V' of the algorithm."""
    known = labels_of(graph) >= 0
    starts = np.random.default_rng(seed).permutation(np.flatnonzero(known))
    return visiting_order(least_similar_first(above_among(pairs, known)), starts, number)


@given(
    graph=graphs(min_nodes=3, labels=("single", "some unknown", "many"), attributes=("counts",)),
    share=st.floats(0, 1),
    ratio=st.sampled_from([0.0, 0.3, 0.7, 1.0]),
    seed=st.integers(0, 5),
)
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("relation", ["attribute-similarity", "graph-distance"])
def test_labels_are_those_of_the_plain_algorithm(
    relation: str, rule: Rule, graph: Graph, share: float, ratio: float, seed: int
) -> None:
    if relation == "graph-distance" and not graph.num_edges:
        return
    pairs = above_pairs(graph, relation, quantile=0.7)
    number = round(share * int((labels_of(graph) >= 0).sum()))
    expected, perturbed = plain_perturbation(graph, pairs, number, ratio, rule, seed)
    found = perturb_labels(graph, pairs, number, ratio=ratio, rule=rule, seed=seed)
    assert labels_of(found).tolist() == [expected[node] for node in range(graph.num_nodes)]
    assert perturbed_nodes(graph, pairs, number, seed) == perturbed


@pytest.mark.parametrize("number", [0, 1, 7, 60, 120])
@pytest.mark.parametrize("rule", RULES)
def test_as_many_nodes_as_asked_are_perturbed_and_the_others_keep_their_labels(
    rule: Rule, number: int
) -> None:
    graph = make_graph(120, seed=2)
    pairs = above_pairs(graph, "attribute-similarity", quantile=0.9)
    new = perturb_labels(graph, pairs, number, rule=rule, ratio=0.9)
    nodes = perturbed_nodes(graph, pairs, number, seed=0)
    assert len(set(nodes)) == number
    changed = set(np.flatnonzero(labels_of(new) != labels_of(graph)).tolist())
    assert changed <= set(nodes)
    assert len(changed) > number / 3 or number < 2


@pytest.mark.parametrize("rule", RULES)
def test_a_greater_number_perturbs_the_same_nodes_in_the_same_way(rule: Rule) -> None:
    graph = make_graph(80, seed=4)
    pairs = above_pairs(graph, "attribute-similarity", quantile=0.9)
    few = perturbed_nodes(graph, pairs, 20, seed=3)
    more = perturbed_nodes(graph, pairs, 50, seed=3)
    assert more[:20] == few
    few_labels, more_labels = (
        labels_of(perturb_labels(graph, pairs, number, rule=rule, seed=3)) for number in (20, 50)
    )
    assert (few_labels[few] == more_labels[few]).all()


def test_the_seed_decides() -> None:
    graph = make_graph(80, seed=4)
    pairs = above_pairs(graph, "attribute-similarity", quantile=0.9)
    first, again, other = (
        labels_of(perturb_labels(graph, pairs, 40, seed=seed)) for seed in (1, 1, 2)
    )
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_everything_but_the_labels_stays() -> None:
    graph = block_model(60, seed=0)
    before = labels_of(graph).copy()
    new = perturb_labels(graph, above_pairs(graph, "attribute-similarity"), 30)
    assert np.array_equal(labels_of(graph), before)
    assert new.fingerprint() == graph.fingerprint()
    assert new.classes == graph.classes
    assert new.name == graph.name


def with_labels_of_their_own(seed: int) -> Graph:
    """Attributes with twenty planted groups, and labels that know nothing of them."""
    graph = block_model(600, num_classes=20, num_attributes=60, attribute_signal=2.0, seed=seed)
    labels = np.random.default_rng(seed + 100).integers(5, size=600)
    return Graph.from_arrays(graph.attributes, graph.edges, labels)


@pytest.mark.parametrize("rule", RULES)
def test_information_grows_with_the_number_of_perturbed_nodes(rule: Rule) -> None:
    """As the paper says, where its condition holds: the relation told nothing of the labels."""
    curves = []
    for seed in range(4):
        graph = with_labels_of_their_own(seed)
        pairs = above_pairs(graph, "attribute-distribution", quantile=0.97)
        curve = []
        for number in (0, 60, 150, 300, 450, 600):
            new = perturb_labels(graph, pairs, number, rule=rule, seed=seed)
            curve.append(label_information(labels_of(new), pairs))
        curves.append(curve)
    mean = np.mean(curves, axis=0)
    assert (np.diff(mean) > 0).all(), mean
    assert mean[-1] > 100 * mean[0]


def test_a_ratio_of_one_makes_all_labels_one_and_tells_nothing() -> None:
    graph = with_labels_of_their_own(0)
    pairs = above_pairs(graph, "attribute-distribution", quantile=0.97)
    half, whole = (
        labels_of(perturb_labels(graph, pairs, number, ratio=1.0)) for number in (300, 600)
    )
    assert np.bincount(whole).max() > 0.95 * 600
    assert label_information(whole, pairs) < label_information(half, pairs)


def test_on_cora_copying_undoes_what_the_labels_knew_and_voting_adds_to_it() -> None:
    """The paper's own case misses its condition: Cora's labels follow the relation already."""
    graph = load_dataset("cora")
    pairs = above_pairs(graph, "attribute-distribution")
    labels = labels_of(graph)
    assert np.mean(labels[pairs.row.numpy()] == labels[pairs.node.numpy()]) > 0.65
    curves = {}
    for rule in RULES:
        found = (perturb_labels(graph, pairs, n, rule=rule) for n in (0, 500, 1500, 2708))
        curves[rule] = [label_information(labels_of(new), pairs) for new in found]
    assert (np.diff(curves["copy"]) < 0).all()
    assert (np.diff(curves["vote"]) > 0).all()


def test_misuse_is_named() -> None:
    graph = make_graph(10, seed=0)
    pairs = above_pairs(graph, "attribute-similarity")
    with pytest.raises(DataError, match=r"11 labels cannot be perturbed in graph 'graph'.* has 10"):
        perturb_labels(graph, pairs, 11)
    with pytest.raises(DataError, match="has 0 labelled"):
        perturb_labels(make_graph(10, seed=0, labels="none"), pairs, 1)
    with pytest.raises(UsageError, match=r"ratio=1.5"):
        perturb_labels(graph, pairs, 1, ratio=1.5)
    with pytest.raises(UsageError, match="rule='mix' must be 'copy' or 'vote'"):
        perturb_labels(graph, pairs, 1, rule="mix")  # type: ignore[arg-type]


def whole_view(graph: Graph) -> TrainingView:
    return TrainingView.of(graph, () if graph.labels is None else graph.labels >= 0)


def plain_rows(graph: Graph, relation: str, quantile: float) -> list[list[int]]:
    """Above by the definition, row by row: numpy's quantile, least similar first."""
    similarity = all_rows(make_relation(relation), whole_view(graph))
    found = []
    for u, row in enumerate(similarity):
        others = [v for v in range(graph.num_nodes) if v != u]
        eta = np.quantile(row[others], quantile, method="higher")
        above = [v for v in others if row[v] >= eta and row[v] > 0]
        found.append(sorted(above, key=lambda v: (row[v], v)))
    return found


def plain_information(labels: np.ndarray, rows: list[list[int]]) -> float:
    """scikit-learn's mutual information of two lists with an entry for every pair."""
    known = [u for u in range(len(labels)) if labels[u] >= 0]
    pairs = [(u, v) for u in known for v in known if u != v]
    if not pairs:
        return 0.0
    alike = [bool(labels[u] == labels[v]) for u, v in pairs]
    return float(mutual_info_score(alike, [v in rows[u] for u, v in pairs]))


def listed(pairs: SparseRows) -> list[list[int]]:
    return [nodes.tolist() for nodes in least_similar_first(pairs)]


@given(graph=graphs(min_nodes=3), quantile=st.sampled_from([0.5, 0.8, 0.99]))
@pytest.mark.parametrize("relation", ["link", "attribute-similarity", "label-distribution"])
def test_rows_and_information_are_those_of_the_plain_loops(
    relation: str, graph: Graph, quantile: float
) -> None:
    if not make_relation(relation).reads <= whole_view(graph).available:
        with pytest.raises(DataError, match=f"'{relation}' needs"):
            above_pairs(graph, relation, quantile=quantile)
        return
    pairs = above_pairs(graph, relation, quantile=quantile)
    expected = plain_rows(graph, relation, quantile)
    assert listed(pairs) == expected
    if graph.labels is not None:
        information = label_information(graph.labels, pairs)
        assert information == pytest.approx(plain_information(graph.labels, expected), abs=1e-12)


def test_blocks_of_any_height_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = make_graph(40, seed=3)
    whole = above_pairs(graph, "attribute-similarity", quantile=0.8)
    monkeypatch.setattr(module, "rows_per_block", lambda num_nodes: 7)
    assert listed(above_pairs(graph, "attribute-similarity", quantile=0.8)) == listed(whole)


def test_above_among_some_nodes_have_both_ends_there() -> None:
    pairs = above_pairs(make_graph(30, seed=1), "attribute-similarity", quantile=0.7)
    chosen = np.random.default_rng(0).random(30) < 0.5
    expected = [[v for v in row if chosen[u] and chosen[v]] for u, row in enumerate(listed(pairs))]
    assert sum(map(len, expected)) > 0
    assert listed(above_among(pairs, chosen)) == expected


def cliques(size: int, number: int) -> SparseRows:
    """Every node is above for all others of its clique."""
    clique = torch.arange(size * number) // size
    alike = (clique[:, None] == clique).fill_diagonal_(False)
    return SparseRows.of_levels(alike.to(torch.uint8), alike.float())


def test_labels_that_are_the_relation_have_all_its_entropy() -> None:
    pairs = cliques(5, 4)
    share = 4 / 19
    entropy = -share * np.log(share) - (1 - share) * np.log(1 - share)
    assert label_information(np.arange(20) // 5, pairs) == pytest.approx(entropy)


def test_one_label_for_all_and_independent_labels_tell_nothing() -> None:
    pairs = cliques(5, 40)
    assert label_information(np.zeros(200, dtype=np.int64), pairs) == 0.0
    random = np.random.default_rng(0).integers(4, size=200)
    assert label_information(random, pairs) < 1e-3 * label_information(np.arange(200) // 5, pairs)


def test_misuse_is_named_above_pairs() -> None:
    graph = Graph.from_arrays(np.eye(4, dtype=np.float32))
    with pytest.raises(DataError, match="Relation 'link' needs links, which graph 'graph'"):
        above_pairs(graph, "link")
    with pytest.raises(UsageError, match="quantiles"):
        above_pairs(graph, "attribute-similarity", quantile=1.0)
