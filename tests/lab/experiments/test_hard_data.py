"""Made graphs have the shares of links and the words that their definitions say."""

from __future__ import annotations

import numpy as np
import pytest
from small_runs import small_graph

from xtcl.graph.graph import Graph
from xtcl.lab.experiments.hard_data import (
    SECOND_KIND,
    two_tasks,
    with_random_links,
    with_second_kind,
)
from xtcl.relations.custom import MatrixRelation


def pairs(graph: Graph) -> set[tuple[int, int]]:
    return {(int(u), int(v)) for u, v in graph.edges.T}


def second_pairs(relation: MatrixRelation) -> set[tuple[int, int]]:
    return {(int(u), int(v)) for u, v in zip(*relation.similarities.nonzero(), strict=True)}


def alike(found: set[tuple[int, int]], graph: Graph) -> float:
    assert graph.labels is not None
    labels = graph.labels
    return float(np.mean([labels[u] == labels[v] for u, v in found]))


def test_as_many_random_links_are_added_as_there_are() -> None:
    graph = small_graph()
    noisy = with_random_links(graph, seed=3)
    assert pairs(graph) < pairs(noisy)
    assert noisy.num_edges == 2 * graph.num_edges
    assert noisy.name == "blocks-80-noisy"
    assert np.array_equal(noisy.labels, graph.labels)  # type: ignore[arg-type]
    assert isinstance(noisy.attributes, np.ndarray)
    assert np.array_equal(noisy.attributes, graph.attributes)  # type: ignore[arg-type]
    assert (noisy.edges[0] < noisy.edges[1]).all()


def test_random_links_know_nothing_of_the_classes() -> None:
    graph = small_graph(600)
    added = pairs(with_random_links(graph, seed=0)) - pairs(graph)
    assert alike(pairs(graph), graph) > 0.75
    assert abs(alike(added, graph) - 1 / 3) < 0.05


def test_the_links_of_a_seed_are_always_the_same() -> None:
    graph = small_graph()
    same = [with_random_links(graph, seed=seed).fingerprint() for seed in (1, 1, 2)]
    assert same[0] == same[1] != same[2]
    made = [two_tasks(200, seed=seed) for seed in (1, 1, 2)]
    prints = [each.fingerprint() for each, _ in made]
    assert prints[0] == prints[1] != prints[2]
    assert made[0][1] == made[1][1] != made[2][1]


def test_two_tasks_is_as_defined() -> None:
    graph, second = two_tasks(seed=5)
    assert (graph.num_nodes, graph.num_classes, graph.num_attributes) == (2000, 5, 200)
    assert graph.labels is not None
    assert np.bincount(graph.labels).tolist() == [400] * 5
    assert abs(graph.num_edges - 10_000) < 50  # a pair that is drawn twice is one link
    # A share of 0.1 is alike by intention, the others by chance.
    assert abs(alike(pairs(graph), graph) - (0.1 + 0.9 * 0.2)) < 0.02
    joined = second_pairs(second)
    assert second.name == SECOND_KIND
    assert abs(len(joined) / 2 - 4000) < 20
    assert abs(alike(joined, graph) - 0.7) < 0.01
    assert {(v, u) for u, v in joined} == joined
    assert set(np.unique(second.similarities.data).tolist()) == {1.0}


def test_most_links_follow_one_other_labeling() -> None:
    """Without links that are alike in ours, and without any that are not: classes of the other."""
    graph, _ = two_tasks(400, mean_degree=20, other=1.0, own=0.0, seed=0)
    components = np.arange(400)
    for _ in range(400):
        for u, v in graph.edges.T:
            components[u] = components[v] = min(components[u], components[v])
        if all(components[u] == components[v] for u, v in graph.edges.T):
            break
    _, sizes = np.unique(components, return_counts=True)
    assert sizes.tolist() == [80] * 5
    assert abs(alike(pairs(graph), graph) - 0.2) < 0.04  # nothing of ours


@pytest.mark.parametrize("signal", [0.6, 0.0])
def test_words_are_more_frequent_in_their_class(signal: float) -> None:
    graph, _ = two_tasks(signal=signal, seed=1)
    assert graph.labels is not None
    own = graph.labels[:, None] == np.arange(200) % 5
    words = graph.attributes
    assert isinstance(words, np.ndarray)
    assert abs(words[~own].mean() - 0.05) < 0.002
    assert abs(words[own].mean() - 0.05 * np.exp(signal)) < 0.004


def test_all_links_are_both_kinds() -> None:
    graph, second = two_tasks(200, seed=0)
    whole = with_second_kind(graph, second)
    assert pairs(whole) == pairs(graph) | {(min(e), max(e)) for e in second_pairs(second)}
    assert whole.classes == graph.classes
    assert np.array_equal(whole.labels, graph.labels)  # type: ignore[arg-type]
