"""Both ways to count common neighbours, against the product of matrices."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from xtcl.relations import common_neighbours as module
from xtcl.relations.common_neighbours import common_neighbours

CPU = torch.device("cpu")


def star_and_chance(num_nodes: int) -> sp.csr_array:
    """Random links, a hub, and a node without any."""
    links = np.triu(np.random.default_rng(0).random((num_nodes, num_nodes)) < 0.1, 1)
    links[0, 1:] = True
    links[:, -1] = False
    return sp.csr_array((links | links.T).astype(np.float32))


@pytest.mark.parametrize("path", [0, 10**9])
@pytest.mark.parametrize("most", [1, 100, 2**25])
def test_common_neighbours_are_counted(
    path: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PATH_COST", {"cpu": path})  # walked, or multiplied
    monkeypatch.setattr(module, "MAX_PATHS", most)
    links = star_and_chance(30)
    nodes = torch.tensor([0, 29, 7, 3, 7])
    found = common_neighbours(links, CPU)(nodes)
    dense = links.toarray()
    assert found.dtype == torch.float32
    assert np.array_equal(found.numpy(), (dense @ dense)[nodes.numpy()])
