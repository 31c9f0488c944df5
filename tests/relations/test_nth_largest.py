"""The n-th largest of a row is what sorting the row says."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from xtcl.relations import thresholds as module
from xtcl.relations.thresholds import nth_largest

WIDTH = 3000


def rows_of(kind: str) -> Tensor:
    rng = np.random.default_rng(0)
    dense = rng.random((21, WIDTH), dtype=np.float32)
    rows = {
        "dense": dense,
        "sparse": np.where(dense > 0.997, dense, 0.0),
        "steps": np.round(12 * dense) / 12,
        "all one": np.ones_like(dense),
        "nothing": np.zeros_like(dense),
        "in order": np.sort(dense, axis=1),
        # All that is large lies where no sample looks.
        "hidden": np.where(np.arange(WIDTH) % 256 < 16, 0.1 * dense, dense),
        "seen": np.where(np.arange(WIDTH) % 256 < 16, dense, 0.1 * dense),
    }
    rows["mixed"] = np.concatenate([part[3:8] for part in rows.values()])
    rows["some are no partner"] = np.where(dense > 0.5, dense, -1.0)
    return torch.from_numpy(rows[kind].astype(np.float32))


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("rank", [1, 2, 30, 200, 2999, 3000])
@pytest.mark.parametrize(
    "kind",
    [
        "dense",
        "sparse",
        "steps",
        "all one",
        "nothing",
        "in order",
        "hidden",
        "seen",
        "mixed",
        "some are no partner",
    ],
)
def test_is_that_of_the_sorted_row(
    kind: str, rank: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LONG_ROW", 1000)
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    rows = rows_of(kind)
    expected = np.sort(rows.numpy(), axis=1)[:, -rank, None]
    assert np.array_equal(nth_largest(rows, rank).numpy(), expected)


def test_only_rows_that_a_sample_does_not_serve_go_to_the_heap_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "LONG_ROW", 1000)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    by_heap, shapes = module._by_heap, []

    def watched(rows: Tensor, rank: int) -> Tensor:
        shapes.append(tuple(rows.shape))
        return by_heap(rows, rank)

    monkeypatch.setattr(module, "_by_heap", watched)
    rows = rows_of("dense")
    rows[:4] = 0.0
    nth_largest(rows, 30)
    heights = [height for height, width in shapes if width == WIDTH]
    assert sum(heights) < 4 + 4
    assert max(width for height, width in shapes if height == 17) < WIDTH // 8


def test_one_row_and_a_short_row() -> None:
    assert nth_largest(torch.tensor([[0.3, 0.9, 0.5]]), 2).tolist() == [[0.5]]
    wide = torch.arange(10_000.0)[None]
    assert nth_largest(wide, 100).tolist() == [[9900.0]]
