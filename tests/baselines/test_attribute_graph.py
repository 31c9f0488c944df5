"""Nearest neighbours by attributes against a loop over all pairs."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from xtcl.errors import UsageError
from xtcl.lab.methods.asp import is_binary, nearest_by_attributes

CPU = torch.device("cpu")
RNG = np.random.default_rng(0)
WORDS = (RNG.random((40, 12)) < 0.3).astype(np.float32)
NUMBERS = RNG.normal(size=(40, 12)).astype(np.float32)
NUMBERS[7] = 0.0


def jaccard(x: np.ndarray, y: np.ndarray) -> float:
    either = np.count_nonzero((x > 0) | (y > 0))
    return np.count_nonzero((x > 0) & (y > 0)) / either if either else 0.0


def cosine(x: np.ndarray, y: np.ndarray) -> float:
    lengths = float(np.linalg.norm(x) * np.linalg.norm(y))
    return float(x.astype(np.float64) @ y) / lengths if lengths else 0.0


def neighbours(attributes: np.ndarray, count: int) -> list[tuple[int, int]]:
    """Sort all others by similarity, ties by number, and keep the first that are similar at all."""
    similarity = jaccard if is_binary(attributes) else cosine
    arcs = []
    for u in range(len(attributes)):
        scores = {
            v: similarity(attributes[u], attributes[v]) for v in range(len(attributes)) if v != u
        }
        nearest = sorted(scores, key=lambda v: (-scores[v], v))[:count]
        arcs += [(u, v) for v in sorted(nearest) if scores[v] > 0]
    return arcs


def found(
    attributes: np.ndarray | sp.csr_array,
    count: int,
    height: int | None = None,
    words: bool = True,
) -> list[tuple[int, ...]]:
    arcs = nearest_by_attributes(attributes, count, CPU, words=words, height=height)
    return [tuple(arc) for arc in arcs.T.tolist()]


@pytest.mark.parametrize("attributes", [WORDS, NUMBERS], ids=["words", "numbers"])
@pytest.mark.parametrize("count", [1, 5, 39, 100])
def test_arcs_are_those_of_a_loop_over_all_pairs(attributes: np.ndarray, count: int) -> None:
    assert found(attributes, count) == neighbours(attributes, count)


@pytest.mark.parametrize("height", [1, 7, 40])
def test_the_height_of_a_block_changes_nothing(height: int) -> None:
    assert found(WORDS, 5, height) == neighbours(WORDS, 5)
    assert found(NUMBERS, 5, height) == neighbours(NUMBERS, 5)


def test_sparse_attributes_give_the_same_arcs() -> None:
    assert found(sp.csr_array(WORDS), 5) == neighbours(WORDS, 5)
    assert found(sp.csr_array(NUMBERS), 5) == neighbours(NUMBERS, 5)


def test_binary_means_zeros_and_ones() -> None:
    assert is_binary(WORDS)
    assert is_binary(sp.csr_array(WORDS))
    assert not is_binary(2 * WORDS)
    assert not is_binary(-WORDS)
    assert not is_binary(sp.csr_array(NUMBERS))


def test_words_are_measured_by_jaccard_and_other_numbers_by_cosine() -> None:
    words = np.zeros((3, 8), np.float32)
    words[0, [0, 1]] = 1
    words[1, [0, 7]] = 1  # to node 0: Jaccard 1/3, cosine 0.50
    words[2, :7] = 1  # to node 0: Jaccard 2/7, cosine 0.53
    assert found(words, 1)[0] == (0, 1)
    assert found(2 * words, 1)[0] == (0, 2)
    assert found(words, 1, words=False)[0] == (0, 2)


def test_nodes_that_share_nothing_are_no_neighbours() -> None:
    apart = np.array([[1, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 0]], np.float32)
    assert found(apart, 3) == [(0, 1), (1, 0)]


def test_without_attributes_there_are_no_arcs() -> None:
    assert found(np.zeros((5, 0), np.float32), 3) == []
    assert found(np.ones((1, 4), np.float32), 3) == []


def test_no_neighbours_are_refused() -> None:
    with pytest.raises(UsageError, match="number of neighbours, 0, must be at least 1"):
        nearest_by_attributes(WORDS, 0, CPU)
