from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import graphs, make_graph

from xtcl.errors import DataError, UsageError
from xtcl.graph.datasets.load import load_dataset
from xtcl.graph.datasets.synthetic import block_model
from xtcl.graph.graph import Graph
from xtcl.lab.experiments.perturbation import (
    AbovePairs,
    Rule,
    above_pairs,
    label_information,
    perturb_labels,
    visiting_order,
)

RULES: tuple[Rule, ...] = ("copy", "vote")


def labels_of(graph: Graph) -> np.ndarray:
    assert graph.labels is not None
    return graph.labels


def plain_perturbation(
    graph: Graph, pairs: AbovePairs, number: int, ratio: float, rule: Rule, seed: int
) -> tuple[dict[int, int], list[int]]:
    """Algorithm 2 in sets and loops: labels by node, and the perturbed nodes in their order."""
    old = {node: int(label) for node, label in enumerate(labels_of(graph))}
    new = dict(old)
    rng = np.random.default_rng(seed)
    starts = [int(u) for u in rng.permutation([u for u in old if old[u] >= 0])]
    above = {u: [int(v) for v in pairs.of(u) if old[int(v)] >= 0] for u in starts}
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


def perturbed_nodes(graph: Graph, pairs: AbovePairs, number: int, seed: int) -> list[int]:
    """V' of the algorithm."""
    known = labels_of(graph) >= 0
    starts = np.random.default_rng(seed).permutation(np.flatnonzero(known))
    return visiting_order(pairs.among(known), starts, number)


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
    assert np.mean(labels[pairs.nodes] == labels[pairs.others]) > 0.65
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
