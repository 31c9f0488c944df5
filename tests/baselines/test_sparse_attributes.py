"""Attributes of which few are not 0."""

from __future__ import annotations

import torch

from xtcl.lab.methods.cocos import lighter
from xtcl.lab.methods.self_supervised import sparse_if_few


def test_only_attributes_with_few_non_zeros_become_sparse() -> None:
    x = torch.zeros(10, 20)
    x[:9, 0] = torch.arange(1.0, 10.0)
    for form in (sparse_if_few, lighter):
        assert form(x).layout == torch.sparse_csr
        torch.testing.assert_close(form(x).to_dense(), x)
        torch.testing.assert_close(form(x.T).to_dense(), x.T)
    x[9, 0] = 1.0
    for form in (sparse_if_few, lighter):
        assert form(x) is x


def test_only_a_cpu_is_quicker_with_sparse_dropout() -> None:
    x = torch.zeros(10, 20, device="meta")
    assert lighter(x) is x
