"""Walks, their pairs and the PPMI matrix, against plain counts and against their expectation."""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise, permutations

import numpy as np
import pytest
import torch

from xtcl.errors import UsageError
from xtcl.graph.datasets.synthetic import block_model
from xtcl.graph.graph import Graph
from xtcl.lab.methods.dgcn import PPMISmoothing, pair_counts, positive_information, random_walks

GRAPH = block_model(30, num_classes=3, num_attributes=4, mean_degree=4)
# A triangle with a tail, and a node that is alone.
TINY = Graph.from_arrays(edges=[[0, 0, 1, 2, 3], [1, 2, 2, 3, 4]], num_nodes=6)


def links_of(graph: Graph) -> torch.Tensor:
    return torch.from_numpy(np.array(graph.edge_index))


def walks_of(graph: Graph, walks: int, steps: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return random_walks(links_of(graph), graph.num_nodes, walks, steps, generator)


def plain_counts(walks: torch.Tensor) -> Counter[tuple[int, int]]:
    """Every two places of every walk, in both orders."""
    return Counter(pair for walk in walks.tolist() for pair in permutations(walk, 2))


def plain_ppmi(counts: Counter[tuple[int, int]], num_nodes: int) -> np.ndarray:
    """Straight from the formula, dense."""
    total = sum(counts.values())
    row, column = Counter[int](), Counter[int]()
    for (u, v), count in counts.items():
        row[u] += count
        column[v] += count
    matrix = np.zeros((num_nodes, num_nodes))
    for (u, v), count in counts.items():
        matrix[u, v] = max(0.0, math.log(total * count / (row[u] * column[v])))
    return matrix


def expected_counts(graph: Graph, steps: int) -> np.ndarray:
    """Of one walk from every node: powers of the transition matrix of A + I."""
    move = graph.adjacency.toarray() + np.eye(graph.num_nodes)
    move = move / move.sum(axis=1, keepdims=True)
    place = [np.linalg.matrix_power(move, step) for step in range(steps + 1)]
    one_way = sum(
        np.diag(place[first].sum(axis=0)) @ place[second - first]
        for first in range(steps + 1)
        for second in range(first + 1, steps + 1)
    )
    return np.asarray(one_way + one_way.T)


@pytest.mark.parametrize("steps", [1, 2, 4])
def test_walks_follow_links_or_stay(steps: int) -> None:
    walks = walks_of(TINY, 50, steps)
    assert walks.shape == (6 * 50, steps + 1)
    np.testing.assert_array_equal(walks[:, 0], np.repeat(np.arange(6), 50))
    allowed = TINY.adjacency.toarray() + np.eye(6) > 0
    for walk in walks.tolist():
        assert all(allowed[u, v] for u, v in pairwise(walk))


def test_every_neighbour_and_staying_are_as_likely() -> None:
    walks = walks_of(TINY, 20_000, 1)
    for node in range(6):
        choices = [node, *TINY.adjacency[[node]].indices.tolist()]
        ends = walks[walks[:, 0] == node, 1]
        shares = [(ends == choice).double().mean().item() for choice in choices]
        assert shares == pytest.approx([1 / len(choices)] * len(choices), abs=0.015)  # 4 sigma


@pytest.mark.parametrize("steps", [1, 3])
def test_pairs_are_counted_as_by_hand(steps: int) -> None:
    walks = walks_of(GRAPH, 7, steps)
    pairs, counts = pair_counts(walks, 30)
    found = {(u, v): count for (u, v), count in zip(pairs.T.tolist(), counts.tolist(), strict=True)}
    assert found == plain_counts(walks)
    assert counts.sum() == 30 * 7 * steps * (steps + 1)
    keys = pairs[0] * 30 + pairs[1]
    assert (keys.diff() > 0).all()


@pytest.mark.parametrize(("steps", "all_kept"), [(1, True), (3, False)])
def test_information_is_its_formula(steps: int, all_kept: bool) -> None:
    walks = walks_of(GRAPH, 7, steps)
    pairs, information = positive_information(*pair_counts(walks, 30), 30)
    assert (information > 0).all()
    found = np.zeros((30, 30))
    found[pairs[0], pairs[1]] = information
    expected = plain_ppmi(plain_counts(walks), 30)
    np.testing.assert_allclose(found, expected, atol=1e-12)
    # On long walks some nodes meet less often than by chance.
    assert (len(information) == len(plain_counts(walks))) == all_kept


@pytest.mark.parametrize("steps", [1, 2])
def test_many_walks_come_to_the_expected_matrix(steps: int) -> None:
    walks = 20_000
    pairs, counts = pair_counts(walks_of(TINY, walks, steps), 6)
    found = np.zeros((6, 6))
    found[pairs[0], pairs[1]] = counts / walks
    expected = expected_counts(TINY, steps)
    np.testing.assert_allclose(found, expected, atol=0.03)
    np.testing.assert_array_equal(found > 0, expected > 0)

    pairs, information = positive_information(pairs, counts, 6)
    found = np.zeros((6, 6))
    found[pairs[0], pairs[1]] = information
    sums = expected.sum(axis=1)
    with np.errstate(divide="ignore"):
        exact = np.log(expected.sum() * expected / np.outer(sums, sums)).clip(min=0)
    np.testing.assert_allclose(found, exact, atol=0.05)
    assert found[5, 5] == pytest.approx(math.log(6))  # it only ever meets itself


def made(walks: int = 9, steps: int = 2, seed: int = 0) -> PPMISmoothing:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return PPMISmoothing(walks, steps)


def test_smoothing_is_the_normalised_matrix() -> None:
    module = made()
    walks = walks_of(GRAPH, 9, 2, module.seed)
    dense = plain_ppmi(plain_counts(walks), 30)
    root = np.diag(dense.sum(axis=1) ** -0.5)
    x = torch.randn(30, 5, generator=torch.Generator().manual_seed(1))
    found = module(x, links_of(GRAPH))
    np.testing.assert_allclose(found, root @ dense @ root @ x.numpy(), atol=1e-6)


def test_gradient_is_that_of_the_matrix() -> None:
    module, links = made(), links_of(GRAPH)
    matrix = module.matrix(links, 30).to_dense()
    torch.testing.assert_close(matrix, matrix.T)
    x = torch.randn(30, 5, dtype=torch.float64, requires_grad=True)
    weights = torch.randn(30, 5, dtype=torch.float64)
    (module(x, links) * weights).sum().backward()
    torch.testing.assert_close(x.grad, matrix.T @ weights)


def test_walks_are_drawn_once_and_follow_the_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    links, x = links_of(GRAPH), torch.ones(30, 2)
    module = made(seed=4)
    first = module(x, links)
    again = made(seed=4)(x, links)
    assert torch.equal(first, again)
    assert not torch.allclose(first, made(seed=5)(x, links))
    monkeypatch.setattr(PPMISmoothing, "matrix", None)
    assert torch.equal(module(x, links), first)


@pytest.mark.parametrize("num_nodes", [1, 5])
def test_a_graph_without_links_is_left_as_it_is(num_nodes: int) -> None:
    x = torch.rand(num_nodes, 2)
    found = made()(x, torch.zeros(2, 0, dtype=torch.int64))
    # Alone, a node tells nothing about itself: log 1.
    torch.testing.assert_close(found, x if num_nodes > 1 else torch.zeros(1, 2))


def test_nothing_to_walk_is_refused() -> None:
    with pytest.raises(UsageError, match="walks=0 must be at least 1"):
        PPMISmoothing(0)
    with pytest.raises(UsageError, match="steps=0 must be at least 1"):
        PPMISmoothing(10, 0)
