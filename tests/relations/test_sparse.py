"""Sparse products, and rows of listed pairs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from dense import neighbours
from hypothesis import given
from hypothesis import strategies as st
from strategies import random_links, views

from xtcl.errors import UsageError
from xtcl.relations.sparse import SparseRows, product, to_device, within_hops
from xtcl.relations.view import TrainingView

CPU = torch.device("cpu")


def weighted(num_nodes: int, density: float) -> sp.csr_array:
    links = random_links(num_nodes, density)
    links.data[:] = np.random.default_rng(1).standard_normal(links.nnz)
    return links


@pytest.fixture(params=[1, 3])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("columns", [0, 1, 7, 16, 65])
@pytest.mark.parametrize("density", [0.0, 0.02, 0.3])
def test_is_the_product_of_the_dense_matrix(density: float, columns: int) -> None:
    links = weighted(80, density)
    dense = torch.randn(80, columns, generator=torch.Generator().manual_seed(0))
    found = product(to_device(links, CPU), dense)
    assert found.shape == (80, columns)
    np.testing.assert_allclose(found, links.toarray() @ dense.numpy(), rtol=1e-5, atol=1e-5)


def test_takes_what_lies_transposed_and_what_is_not_square() -> None:
    links = sp.csr_array(weighted(40, 0.2)[:25])
    dense = torch.randn(9, 40, generator=torch.Generator().manual_seed(0)).T
    found = product(to_device(links, CPU), dense)
    np.testing.assert_allclose(found, links.toarray() @ dense.numpy(), rtol=1e-5, atol=1e-5)


def test_a_column_comes_out_the_same_in_any_company() -> None:
    links = to_device(weighted(80, 0.2), CPU)
    dense = torch.randn(80, 70, generator=torch.Generator().manual_seed(0))
    together = product(links, dense)
    for columns in (slice(3, 4), slice(5, 21), slice(6, 70)):
        assert torch.equal(product(links, dense[:, columns]), together[:, columns])


def test_double_precision_stays() -> None:
    links = to_device(weighted(30, 0.2), CPU).to(torch.float64)
    dense = torch.randn(30, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    assert product(links, dense).dtype == torch.float64
    torch.testing.assert_close(product(links, dense), links.to_dense() @ dense)


# The container of listed pairs, against dense blocks of levels and similarities.


def dense(count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    rng = np.random.default_rng(seed)
    levels = rng.integers(0, 4, size=(count, count)) * (rng.random((count, count)) < 0.3)
    similarities = rng.random((count, count)).astype(np.float32)
    return torch.from_numpy(similarities), torch.from_numpy(levels.astype(np.uint8))


def assert_same(found: SparseRows, expected: SparseRows) -> None:
    assert found.num_rows == expected.num_rows
    for one, other in zip(found.to_numpy(), expected.to_numpy(), strict=True):
        np.testing.assert_array_equal(one, other, strict=True)


@given(st.integers(1, 12), st.integers(0, 100), st.data())
def test_dense_blocks_come_back(count: int, seed: int, data: st.DataObject) -> None:
    similarities, levels = dense(count, seed)
    nodes = torch.tensor(
        sorted(data.draw(st.sets(st.integers(0, count - 1), min_size=1))), dtype=torch.int64
    )
    rows = SparseRows.of_levels(levels[nodes], similarities[nodes])
    assert rows.num_rows == len(nodes)
    assert [column.dtype for column in rows.to_numpy()] == [
        np.int64,
        np.int64,
        np.float32,
        np.uint8,
    ]
    assert torch.equal(rows.dense_levels(count), levels[nodes])
    backwards = torch.arange(len(nodes)).flip(0)
    assert torch.equal(rows.at(backwards).dense_levels(count), levels[nodes.flip(0)])
    assert_same(rows.to(torch.device("cpu")), rows)
    for place, u in enumerate(nodes.tolist()):
        row = rows.between(place, place + 1)
        others = np.flatnonzero(levels[u].numpy())
        assert row.node.tolist() == others.tolist()
        assert row.values.tolist() == similarities[u].numpy()[others].tolist()
        assert row.row.tolist() == [0] * len(others)


@pytest.mark.parametrize("height", [1, 2, 5, 9, 20])
def test_joined_blocks_are_the_whole(height: int) -> None:
    similarities, levels = dense(9, 0)
    everyone = torch.arange(9)
    whole = SparseRows.of_levels(levels, similarities)
    parts = [
        SparseRows.of_levels(levels[nodes], similarities[nodes])
        for nodes in torch.split(everyone, height)
    ]
    assert_same(SparseRows.joined(parts), whole)


def test_rows_without_entries() -> None:
    similarities, levels = dense(5, 1)
    rows = SparseRows.of_levels(levels, similarities)
    joined = SparseRows.joined([SparseRows.empty(2), rows, SparseRows.empty(3)])
    assert joined.num_rows == 10
    assert_same(joined.between(2, 7), rows)
    assert_same(joined.between(7, 10), SparseRows.empty(3))
    assert torch.equal(SparseRows.empty(2).dense_levels(4), torch.zeros(2, 4, dtype=torch.uint8))


def test_chosen_entries_and_columns() -> None:
    similarities, levels = dense(8, 2)
    rows = SparseRows.of_levels(levels, similarities)
    high = rows.where(rows.levels > 1)
    assert torch.equal(high.dense_levels(8), levels * (levels > 1))
    padded = high.padded(high.values, -1.0)
    for place, row in enumerate(padded.tolist()):
        expected = similarities[place][levels[place] > 1].tolist()
        assert row == expected + [-1.0] * (len(row) - len(expected))


def test_entries_without_values_are_refused() -> None:
    nothing = torch.zeros(0, dtype=torch.int64)
    with pytest.raises(UsageError, match="lack a value or a level"):
        SparseRows(nothing, nothing, 1).to_numpy()


@given(views(), st.integers(1, 4))
def test_within_hops_are_the_pairs_of_a_breadth_first_search(view: TrainingView, hops: int) -> None:
    before = view.adjacency.copy()
    found = within_hops(view.adjacency, hops)
    near = neighbours(view)
    for u in range(view.num_nodes):
        reached, last = {u}, {u}
        for _ in range(hops):
            last = {w for v in last for w in near[v]} - reached
            reached |= last
        assert set(found[[u]].indices.tolist()) == reached - {u}
    assert set(found.data.tolist()) <= {1.0}
    assert found.has_sorted_indices
    np.testing.assert_array_equal(before.toarray(), view.adjacency.toarray())
