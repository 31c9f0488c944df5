"""Sparse products with gradient and dropout, against dense ones."""

from __future__ import annotations

import math
import subprocess
import sys
import warnings
from collections.abc import Callable

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch import Tensor
from torch.nn import functional as F

from xtcl.nn.functional import MAX_DENSITY, dropout, sparse_dropout_linear, sparse_product
from xtcl.relations.sparse import quiet_sparse, to_device
from xtcl.training.trainer import seeded

CPU = torch.device("cpu")


def rows_of(density: float, shape: tuple[int, int] = (40, 30)) -> Tensor:
    """Random rows with about this share of values other than 0, none of them alike."""
    generator = torch.Generator().manual_seed(0)
    values = 1 + torch.rand(shape, generator=generator)
    return values * (torch.rand(shape, generator=generator) < density)


@pytest.mark.parametrize("share", [0.2, 0.7])
def test_dropout_drops_its_share_and_keeps_the_mean(share: float) -> None:
    with seeded(0, CPU):
        found = dropout(torch.ones(400, 500), share, training=True)
    assert np.unique(found.numpy()).tolist() == pytest.approx([0.0, 1 / (1 - share)])
    assert float((found == 0).float().mean()) == pytest.approx(share, abs=0.005)


@pytest.mark.parametrize("form", [Tensor.clone, Tensor.to_sparse_csr])
def test_dropout_strikes_each_value_alike(form: Callable[[Tensor], Tensor]) -> None:
    x = torch.zeros(40, 50)
    x[:, ::10] = torch.arange(1.0, 201.0).reshape(40, 5)
    with quiet_sparse():
        given = form(x)
    with seeded(0, CPU):
        drawn = [dropout(given, 0.6, training=True) for _ in range(200)]
    assert {each.layout for each in drawn} == {given.layout}
    kept = torch.stack([each.to_dense() for each in drawn])
    torch.testing.assert_close(kept, torch.where(kept == 0, 0.0, x / 0.4))
    shares = (kept[:, x > 0] != 0).double().mean(dim=0)
    assert shares.mean().item() == pytest.approx(0.4, abs=0.01)
    assert shares.std().item() == pytest.approx(math.sqrt(0.24 / 200), abs=0.01)
    torch.testing.assert_close(dropout(given, 0.6, training=False).to_dense(), x)


def test_dropout_of_the_gradient_is_that_of_the_values() -> None:
    x = torch.rand(20, 30, requires_grad=True)
    with seeded(0, CPU):
        found = dropout(x, 0.4, training=True)
    torch.autograd.backward(found.sum())
    torch.testing.assert_close(x.grad, (found / x).detach())


@pytest.mark.parametrize(("share", "training"), [(0.5, False), (0.0, True)])
def test_nothing_is_dropped(share: float, training: bool) -> None:
    x = rows_of(0.5)
    assert torch.equal(dropout(x, share, training), x)


@pytest.mark.parametrize("density", [0.0, MAX_DENSITY / 2, 0.9])
def test_product_and_gradient_at_rest_are_the_linear_layer(density: float) -> None:
    rows, upstream = rows_of(density), torch.randn(40, 8)
    weights = [torch.ones(8, 30).mul_(0.1).requires_grad_() for _ in range(2)]
    ours = sparse_dropout_linear(rows, weights[0], 0.5, training=False)
    theirs = F.linear(rows, weights[1])
    torch.testing.assert_close(ours, theirs)
    for found in (ours, theirs):
        torch.autograd.backward((found * upstream).sum())
    torch.testing.assert_close(weights[0].grad, weights[1].grad)


@pytest.mark.parametrize("density", [MAX_DENSITY / 2, 0.9])
def test_in_training_each_value_is_dropped_or_scaled(density: float) -> None:
    rows, share = rows_of(density), 0.6
    weight = torch.eye(30).requires_grad_()  # the product is then the dropped rows themselves
    with seeded(1, CPU):
        found = sparse_dropout_linear(rows, weight, share, training=True)
    kept = found != 0
    torch.testing.assert_close(found[kept], rows[kept] / (1 - share))
    assert float(kept.sum() / (rows != 0).sum()) == pytest.approx(1 - share, abs=0.1)
    torch.autograd.backward(found.sum())
    torch.testing.assert_close(weight.grad, found.detach().sum(dim=0).expand(30, 30))


def test_rows_that_want_a_gradient_get_one() -> None:
    rows = rows_of(MAX_DENSITY / 2).requires_grad_()
    torch.autograd.backward(
        sparse_dropout_linear(rows, torch.ones(8, 30), 0.0, training=True).sum()
    )
    torch.testing.assert_close(rows.grad, torch.full((40, 30), 8.0))


# The product and its gradient against dense algebra.


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


# No word from torch about sparse tensors reaches the user.

# torch warns once per process, so only new processes can tell; and whoever is first takes it all.
PROGRAM = """
import warnings
import scipy.sparse, torch, torch_geometric.nn
from xtcl.nn.gcn import GCNEncoder
from xtcl.relations.sparse import to_device
warnings.simplefilter("error")
"""


RELATION = """
matrix = to_device(scipy.sparse.csr_array([[0.0, 1.0], [1.0, 0.0]]), torch.device("cpu"))
matrix @ torch.ones(2, 2)
"""


ENCODER = """
encoder = GCNEncoder(2, 2, layers=2)
encoder(torch.ones(2, 2), torch.tensor([[0, 1], [1, 0]])).sum().backward()
"""


@pytest.mark.slow
@pytest.mark.parametrize("part", [RELATION, ENCODER], ids=["relation", "encoder"])
def test_a_new_process_sees_no_warning(part: str) -> None:
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", PROGRAM + part], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "message",
    [
        "Sparse CSR tensor support is in beta state. If you miss a functionality ...",
        "Sparse invariant checks are implicitly disabled. Memory errors (e.g. SEGFAULT) ...",
    ],
)
def test_what_torch_says_is_kept_back(message: str) -> None:
    with quiet_sparse():
        warnings.warn(message, UserWarning, stacklevel=1)
    with pytest.warns(UserWarning, match="Sparse"):
        warnings.warn(message, UserWarning, stacklevel=1)


@pytest.mark.slow
def test_other_warnings_come_through() -> None:
    with quiet_sparse(), pytest.raises(UserWarning, match="something else"):
        warnings.warn("something else", UserWarning, stacklevel=1)
