from __future__ import annotations

import numpy as np
import pytest
from dense import all_rows
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import mutual_info_score
from strategies import graphs, make_graph

from xtcl.errors import DataError, UsageError
from xtcl.graph.graph import Graph
from xtcl.lab.experiments import perturbation as module
from xtcl.lab.experiments.perturbation import AbovePairs, above_pairs, label_information
from xtcl.relations.registry import make_relation
from xtcl.relations.view import TrainingView


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


def listed(pairs: AbovePairs) -> list[list[int]]:
    return [pairs.of(node).tolist() for node in range(len(pairs.starts) - 1)]


@given(graph=graphs(min_nodes=3), quantile=st.sampled_from([0.5, 0.8, 0.99]))
@pytest.mark.parametrize("relation", ["link", "attribute-similarity", "label-distribution"])
def test_rows_and_information_are_those_of_the_plain_loops(
    relation: str, graph: Graph, quantile: float
) -> None:
    if not make_relation(relation).reads <= whole_view(graph).evidence:
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


def test_pairs_among_some_nodes_have_both_ends_there() -> None:
    pairs = above_pairs(make_graph(30, seed=1), "attribute-similarity", quantile=0.7)
    chosen = np.random.default_rng(0).random(30) < 0.5
    expected = [[v for v in row if chosen[u] and chosen[v]] for u, row in enumerate(listed(pairs))]
    assert sum(map(len, expected)) > 0
    assert listed(pairs.among(chosen)) == expected


def cliques(size: int, number: int) -> AbovePairs:
    """Every node is above for all others of its clique."""
    clique = np.arange(size * number) // size
    rows = [[v for v in np.flatnonzero(clique == clique[u]) if v != u] for u in range(len(clique))]
    return AbovePairs(np.arange(len(clique) + 1) * (size - 1), np.concatenate(rows))


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


def test_misuse_is_named() -> None:
    graph = Graph.from_arrays(np.eye(4, dtype=np.float32))
    with pytest.raises(DataError, match="Relation 'link' needs links, which graph 'graph'"):
        above_pairs(graph, "link")
    with pytest.raises(UsageError, match="quantiles"):
        above_pairs(graph, "attribute-similarity", quantile=1.0)
