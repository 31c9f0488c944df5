"""Matrix products that a GPU rounds for speed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def rough_products() -> Iterator[None]:
    """Products of float32 with ten bits after the point (TF32) where a GPU offers them.

    Training is noisier than that by its draws alone; relations and heads stay exact.
    """
    usual = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(usual)
