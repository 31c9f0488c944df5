"""A sparse matrix times a dense one is what it is with all zeros written out."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from strategies import random_links

from xtcl.relations.sparse import product, to_device

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
