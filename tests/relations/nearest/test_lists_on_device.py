"""Cuts of lists, their levels, equal rows and links, against plain Python and SciPy."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given
from hypothesis import strategies as st
from nearest_oracle import as_lists, best_of, kth_of

from xtcl.relations import cosine
from xtcl.relations.sparse import CSRGraph, SparseRows
from xtcl.relations.thresholds import rank_from_top
from xtcl.relations.topk import TINY, TopK, kth_largest, list_levels, topk_of_lists

CPU = torch.device("cpu")
VALUES = np.array([0, 1e-45, TINY / 2, TINY, 0.1, 0.25, 0.25, np.float32(0.1) + 1e-8, 1, np.inf])


@st.composite
def some_lists(draw: st.DrawFn) -> tuple[sp.csr_array, np.ndarray]:
    """Sparse rows with many equal values, and the nodes they belong to."""
    rng = np.random.default_rng(draw(st.integers(0, 2**20)))
    height, width = int(rng.integers(0, 12)), int(rng.integers(1, 30))
    there = rng.random((height, width)) < rng.random()
    kept = np.nonzero(there)
    value = rng.choice(VALUES, len(kept[0])).astype(np.float32)
    matrix = sp.csr_array((value, kept[1], np.r_[0, there.sum(1).cumsum()]), shape=there.shape)
    return matrix, rng.integers(width, size=height)


@given(some_lists(), st.integers(1, 9), st.integers(0, 8))
def test_cuts_are_the_best_in_order(
    given_lists: tuple[sp.csr_array, np.ndarray], k: int, further: int
) -> None:
    matrix, nodes = given_lists
    top = TopK(k, max(k - further, 1))
    lists = SparseRows.from_scipy(matrix, CPU)
    found = topk_of_lists(lists, torch.from_numpy(nodes), top)
    pairs = zip(as_lists(lists), nodes.tolist(), strict=True)
    assert as_lists(found) == [best_of(row, node, top) for row, node in pairs]


@given(some_lists(), st.integers(1, 9))
def test_the_kth_largest(given_lists: tuple[sp.csr_array, np.ndarray], place: int) -> None:
    lists = SparseRows.from_scipy(given_lists[0], CPU)
    assert kth_largest(lists, place).tolist() == [kth_of(row, place) for row in as_lists(lists)]


@given(some_lists(), st.sampled_from([(0.5, 0.9), (0.3, 0.7, 0.95)]), st.integers(1, 9))
def test_levels_count_the_thresholds_that_are_reached(
    given_lists: tuple[sp.csr_array, np.ndarray], quantiles: tuple[float, ...], k: int
) -> None:
    matrix, nodes = given_lists
    num_nodes = matrix.shape[1]
    found = topk_of_lists(SparseRows.from_scipy(matrix, CPU), torch.from_numpy(nodes), TopK(k, k))
    expected = []
    for row in as_lists(found):
        ranks = [max(rank_from_top(q, num_nodes - 1), 1) for q in quantiles[1:]]
        least = [max(kth_of(row, min(rank, k)), TINY) for rank in ranks]
        expected += [1 + sum(value >= each for each in least) for _, value in row]
    assert list_levels(found, quantiles, k, num_nodes).tolist() == expected


@given(some_lists(), st.lists(st.integers(0, 12), max_size=3))
def test_blocks_are_joined_and_taken_apart(
    given_lists: tuple[sp.csr_array, np.ndarray], cuts: list[int]
) -> None:
    matrix, _ = given_lists
    places = np.sort(np.minimum(cuts, matrix.shape[0]).astype(int))
    whole = SparseRows.from_scipy(matrix, CPU)
    blocks = [SparseRows.from_scipy(sp.csr_array(part), CPU) for part in _cut(matrix, places)]
    joined = SparseRows.joined(blocks)
    assert joined.num_rows == whole.num_rows
    assert as_lists(joined) == as_lists(whole)
    width = matrix.shape[1]
    key = SparseRows.from_keys(whole.key(width), whole.value, whole.num_rows, width)
    assert as_lists(key) == as_lists(whole)
    order = torch.randperm(len(whole.row), generator=torch.Generator().manual_seed(0))
    shuffled = whole.key(width)[order], whole.values[order], whole.num_rows, width
    assert as_lists(SparseRows.from_unsorted_keys(*shuffled)) == as_lists(whole)
    assert np.array_equal(whole.matrix(width).toarray(), matrix.toarray())


def _cut(matrix: sp.csr_array, places: np.ndarray) -> list[sp.csr_array]:
    ends = [0, *places.tolist(), matrix.shape[0]]
    return [matrix[first:end] for first, end in itertools.pairwise(ends)]


@pytest.mark.parametrize("count", [0, 1, 500])
@pytest.mark.parametrize("columns", [1, 16, 33])
@pytest.mark.parametrize("unlucky", [False, True])
def test_groups_are_the_rows_with_equal_bits(
    count: int, columns: int, unlucky: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(columns)
    values = rng.choice([0.0, -0.0, 0.5, 1.0], p=[0.94, 0.02, 0.02, 0.02], size=(count, columns))
    rows = torch.from_numpy(values.astype(np.float32))
    if unlucky:  # different rows get the same number
        monkeypatch.setattr(cosine, "splitmix64", torch.zeros_like)
    groups = cosine.group_rows(rows)
    expected: dict[bytes, list[int]] = {}
    for node, row in enumerate(rows.numpy()):
        expected.setdefault(row.tobytes(), []).append(node)
    assert groups.members.tolist() == list(itertools.chain(*expected.values()))
    assert groups.start.diff().tolist() == [len(members) for members in expected.values()]
    assert [row.tobytes() for row in groups.rows.numpy()] == list(expected)
    assert groups.group[groups.members].tolist() == sorted(groups.group.tolist())


def test_numbers_of_rows_differ_where_a_bit_does() -> None:
    bits = torch.cat([torch.zeros(1, dtype=torch.int32), 2 ** torch.arange(31, dtype=torch.int32)])
    rows = torch.stack([bits.view(torch.float32).roll(1, 0), bits.view(torch.float32)], dim=1)
    kind = cosine.hash_rows(torch.cat([rows, rows.flip(1), rows]))
    assert kind is not None
    assert torch.equal(kind[:32], kind[64:])
    assert len(torch.unique(kind)) == 64


@given(some_lists(), st.integers(0, 2**20))
def test_links_hold_what_scipy_says(
    given_lists: tuple[sp.csr_array, np.ndarray], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    width = given_lists[0].shape[1]
    matrix = sp.csr_array((rng.random((width, width)) < 0.3).astype(np.float32))
    nodes = given_lists[1]
    row, partner = rng.integers(max(len(nodes), 1), size=50), rng.integers(width, size=50)
    row, partner = row[: 50 * len(nodes)], partner[: 50 * len(nodes)]
    asked = (torch.from_numpy(part) for part in (nodes, row, partner))
    held = CSRGraph.from_scipy(matrix, CPU).has_edges(*asked)
    assert held.tolist() == (matrix.toarray()[nodes[row], partner] > 0).tolist()
