"""The product and its gradient against dense algebra."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import torch

from xtcl.nn.functional import sparse_product
from xtcl.relations.sparse import to_device

CPU = torch.device("cpu")


def test_product_and_gradient_are_the_dense_ones() -> None:
    rng = np.random.default_rng(0)
    dense = np.where(rng.random((6, 9)) < 0.3, rng.normal(size=(6, 9)), 0.0).astype(np.float32)
    forth, back = (to_device(sp.csr_array(each), CPU) for each in (dense, dense.T))
    x, weights = torch.randn(9, 4, requires_grad=True), torch.randn(6, 4)
    found = sparse_product(forth, back, x)
    torch.testing.assert_close(found, torch.from_numpy(dense) @ x)
    torch.autograd.backward((found * weights).sum())
    torch.testing.assert_close(x.grad, torch.from_numpy(dense).T @ weights)


def test_no_gradient_where_none_is_asked_for() -> None:
    matrix = to_device(sp.csr_array(sp.eye_array(3)), CPU)
    x = torch.randn(3, 2)
    found = sparse_product(matrix, matrix, x)
    assert not found.requires_grad
    assert torch.equal(found, x)
