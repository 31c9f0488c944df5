"""No word from torch about sparse tensors reaches the user."""

from __future__ import annotations

import subprocess
import sys
import warnings

import pytest

from xtcl.relations.sparse import quiet_sparse

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


@pytest.mark.parametrize("part", [RELATION, ENCODER], ids=["relation", "encoder"])
def test_a_new_process_sees_no_warning(part: str) -> None:
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", PROGRAM + part], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


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


def test_other_warnings_come_through() -> None:
    with quiet_sparse(), pytest.raises(UserWarning, match="something else"):
        warnings.warn("something else", UserWarning, stacklevel=1)
