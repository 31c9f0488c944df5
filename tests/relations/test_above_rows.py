from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from xtcl.errors import UsageError
from xtcl.relations.sparse import AboveRows


def dense(count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    rng = np.random.default_rng(seed)
    levels = rng.integers(0, 4, size=(count, count)) * (rng.random((count, count)) < 0.3)
    similarities = rng.random((count, count)).astype(np.float32)
    return torch.from_numpy(similarities), torch.from_numpy(levels.astype(np.uint8))


@given(st.integers(1, 12), st.integers(0, 100), st.data())
def test_dense_blocks_come_back(count: int, seed: int, data: st.DataObject) -> None:
    similarities, levels = dense(count, seed)
    nodes = torch.tensor(
        sorted(data.draw(st.sets(st.integers(0, count - 1), min_size=1))), dtype=torch.int64
    )
    rows = AboveRows.of_block(nodes, similarities[nodes], levels[nodes])
    assert (rows.first, rows.end) == (int(nodes[0]), int(nodes[-1]) + 1)
    assert [array.dtype for array in (rows.start, rows.nodes, rows.similarities, rows.levels)] == [
        np.int64,
        np.int64,
        np.float32,
        np.uint8,
    ]
    assert torch.equal(rows.level_block(nodes, count), levels[nodes])
    assert torch.equal(rows.level_block(nodes.flip(0), count), levels[nodes.flip(0)])
    for u in nodes.tolist():
        row = rows.between(u, u + 1)
        others = np.flatnonzero(levels[u].numpy())
        assert row.nodes.tolist() == others.tolist()
        assert row.similarities.tolist() == similarities[u].numpy()[others].tolist()
        assert row.sources.tolist() == [u] * len(others)


@pytest.mark.parametrize("height", [1, 2, 5, 9, 20])
def test_concatenated_blocks_are_the_whole(height: int) -> None:
    similarities, levels = dense(9, 0)
    everyone = torch.arange(9)
    whole = AboveRows.of_block(everyone, similarities, levels)
    parts = [
        AboveRows.of_block(nodes, similarities[nodes], levels[nodes])
        for nodes in torch.split(everyone, height)
    ]
    joined = AboveRows.concatenate(parts)
    for name in ("start", "nodes", "similarities", "levels"):
        np.testing.assert_array_equal(getattr(joined, name), getattr(whole, name), strict=True)


def test_a_gap_is_refused() -> None:
    with pytest.raises(UsageError, match="before node 3 cannot be followed by those from node 4"):
        AboveRows.concatenate([AboveRows.empty(0, 3), AboveRows.empty(4, 5)])
