"""Dropout of attributes, dense or sparse."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from xtcl.baselines.attribute_dropout import drop_values
from xtcl.baselines.context_shuffle import lighter


@pytest.mark.parametrize("form", [Tensor.clone, lighter])
def test_dropout_strikes_each_attribute_alike(form: Callable[[Tensor], Tensor]) -> None:
    x = torch.zeros(40, 50)
    x[:, ::10] = torch.arange(1.0, 201.0).reshape(40, 5)
    given = form(x)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        kept = torch.stack([drop_values(given, 0.6).to_dense() for _ in range(200)])
    torch.testing.assert_close(kept, torch.where(kept == 0, 0.0, x / 0.4))
    shares = (kept[:, x > 0] != 0).double().mean(dim=0)
    assert shares.mean().item() == pytest.approx(0.4, abs=0.01)
    assert shares.std().item() == pytest.approx(math.sqrt(0.24 / 200), abs=0.01)
