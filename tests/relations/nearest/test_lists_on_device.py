"""Lists on the device against those of NumPy and SciPy: cuts, levels, equal rows, links."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given
from hypothesis import strategies as st

from xtcl.relations import cosine as equal_rows
from xtcl.relations import cosine as groups
from xtcl.relations import topk as cut
from xtcl.relations import topk as levels
from xtcl.relations import topk as levels_on_device
from xtcl.relations import topk as lists
from xtcl.relations import topk as use
from xtcl.relations.common_neighbours import Links
from xtcl.relations.topk import TINY, Cut, Lists, NearestRows

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


def on_device(matrix: sp.csr_array) -> Lists:
    key = cut.rows_of(matrix) * matrix.shape[1] + matrix.indices
    return Lists(torch.from_numpy(key).long(), torch.from_numpy(matrix.data), matrix.shape)


def assert_same(found: NearestRows, expected: sp.csr_array) -> None:
    for part, other in zip(found, NearestRows.of(expected, torch.device("cpu")), strict=True):
        assert part.dtype == other.dtype
        assert torch.equal(part, other)


@given(some_lists(), st.integers(1, 9), st.integers(0, 8))
def test_cuts_as_numpy_does(
    given_lists: tuple[sp.csr_array, np.ndarray], cap: int, further: int
) -> None:
    matrix, nodes = given_lists
    limits = Cut(cap, max(cap - further, 1))
    found = lists.topk_of_lists(on_device(matrix), torch.from_numpy(nodes), limits)
    assert_same(found, cut.topk_of_lists_numpy(matrix, nodes, limits))


@given(some_lists(), st.integers(1, 9))
def test_the_floor_is_what_numpy_finds(
    given_lists: tuple[sp.csr_array, np.ndarray], place: int
) -> None:
    floors = lists.kth_largest(on_device(given_lists[0]), place)
    assert floors.tolist() == cut.kth_largest_numpy(given_lists[0], place).tolist()


@given(some_lists(), st.sampled_from([(0.5, 0.9), (0.3, 0.7, 0.95)]), st.integers(1, 9))
def test_levels_are_what_numpy_finds(
    given_lists: tuple[sp.csr_array, np.ndarray], quantiles: tuple[float, ...], cap: int
) -> None:
    matrix, nodes = given_lists
    matrix = cut.topk_of_lists_numpy(matrix, nodes, Cut(cap, cap))
    found = NearestRows.of(matrix, torch.device("cpu"))
    reached = levels_on_device.list_levels(found, quantiles, cap, matrix.shape[1])
    assert reached.tolist() == levels.list_levels_numpy(matrix, quantiles, cap).tolist()


@pytest.mark.parametrize("count", [0, 1, 500])
@pytest.mark.parametrize("columns", [1, 16, 33])
@pytest.mark.parametrize("unlucky", [False, True])
def test_groups_equal_rows_as_numpy_does(
    count: int, columns: int, unlucky: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(columns)
    values = rng.choice([0.0, -0.0, 0.5, 1.0], p=[0.94, 0.02, 0.02, 0.02], size=(count, columns))
    rows = torch.from_numpy(values.astype(np.float32))
    expected = groups.unique_rows(rows)
    monkeypatch.setattr(use, "DEVICES", frozenset({"cpu"}))
    if unlucky:
        monkeypatch.setattr(equal_rows, "splitmix64", torch.zeros_like)
    for part, other in zip(groups.unique_rows(rows), expected, strict=True):
        assert torch.equal(part, other)


def test_numbers_of_rows_differ_where_a_bit_does() -> None:
    bits = torch.cat([torch.zeros(1, dtype=torch.int32), 2 ** torch.arange(31, dtype=torch.int32)])
    rows = torch.stack([bits.view(torch.float32).roll(1, 0), bits.view(torch.float32)], dim=1)
    kind = equal_rows.hash_rows(torch.cat([rows, rows.flip(1), rows]))
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
    held = Links.of(matrix, torch.device("cpu")).hold(*asked)
    assert held.tolist() == (matrix.toarray()[nodes[row], partner] > 0).tolist()
