"""Synthetic graphs: sizes, planted structure, uniform draws."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from xtcl.errors import UsageError
from xtcl.graph.datasets.synthetic import block_model, random_graph


@given(st.integers(2, 60), st.integers(0, 5))
def test_random_graph_has_twice_as_many_links_as_nodes(num_nodes: int, seed: int) -> None:
    graph = random_graph(num_nodes, num_classes=3, num_attributes=2, seed=seed)
    assert graph.num_nodes == num_nodes
    assert graph.num_edges == min(2 * num_nodes, num_nodes * (num_nodes - 1) // 2)
    assert graph.attributes.shape == (num_nodes, 2)
    assert graph.num_classes == 3
    assert not graph.repairs


@given(
    st.integers(2, 40),
    st.integers(1, 5),
    st.floats(0, 50),
    st.floats(0, 1),
)
def test_block_model_has_the_links_asked_for_or_all_there_are(
    num_nodes: int, num_classes: int, mean_degree: float, homophily: float
) -> None:
    graph = block_model(
        num_nodes, num_classes=num_classes, mean_degree=mean_degree, homophily=homophily
    )
    labels = graph.labels
    assert labels is not None
    pairs = [(u, v) for u in range(num_nodes) for v in range(u + 1, num_nodes)]
    alike = sum(labels[u] == labels[v] for u, v in pairs)
    total = round(num_nodes * mean_degree / 2)
    inside = round(homophily * total)
    found = int((labels[graph.edges[0]] == labels[graph.edges[1]]).sum())
    assert found == min(inside, alike)
    assert graph.num_edges - found == min(total - inside, len(pairs) - alike)
    assert not graph.repairs


def test_block_model_links_are_uniform_within_their_kind() -> None:
    counts: Counter[tuple[bool, int, int]] = Counter()
    for seed in range(1500):
        graph = block_model(7, num_classes=3, mean_degree=2, homophily=0.5, seed=seed)
        assert graph.labels is not None
        order = np.argsort(graph.labels, kind="stable")  # class sizes are 3, 2, 2
        place = np.argsort(order)
        for u, v in np.sort(place[graph.edges], axis=0).T.tolist():
            blocks = [0, 0, 0, 1, 1, 2, 2]
            counts[blocks[u] == blocks[v], u, v] += 1
    for same, number in ((True, 5), (False, 16)):
        observed = [count for (kind, _, _), count in counts.items() if kind == same]
        assert len(observed) == number
        assert stats.chisquare(observed).pvalue > 0.001


def test_block_model_attributes_tell_the_class_as_strongly_as_asked() -> None:
    def gap(signal: float) -> float:
        graph = block_model(4000, num_classes=4, num_attributes=8, attribute_signal=signal)
        assert isinstance(graph.attributes, np.ndarray)
        assert graph.labels is not None
        own = graph.labels[:, None] == np.arange(8)[None, :] % 4
        return float(graph.attributes[own].mean() - graph.attributes[~own].mean())

    assert gap(0.0) == pytest.approx(0.0, abs=0.015)
    assert gap(1.0) == pytest.approx(0.1 * (np.e - 1), abs=0.02)
    assert gap(9.0) == pytest.approx(0.8, abs=0.02)


@pytest.mark.parametrize("make", [random_graph, block_model])
def test_seeds_decide_everything(make: type) -> None:
    assert make(50, seed=3).fingerprint() == make(50, seed=3).fingerprint()
    assert make(50, seed=3).fingerprint() != make(50, seed=4).fingerprint()
    assert np.array_equal(make(50, seed=3).labels, make(50, seed=3).labels)


def test_classes_are_planted_in_equal_shares() -> None:
    labels = block_model(10, num_classes=4).labels
    assert labels is not None
    assert sorted(np.bincount(labels).tolist()) == [2, 2, 3, 3]


@pytest.mark.parametrize(
    "wrong", [{"num_nodes": 1}, {"homophily": 1.1}, {"mean_degree": -1.0}, {"seed": -1}]
)
def test_impossible_parameters(wrong: dict[str, int]) -> None:
    with pytest.raises(UsageError):
        block_model(**wrong)
