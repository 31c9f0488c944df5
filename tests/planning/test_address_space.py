"""A large fit keeps its budget: the system gives it no more."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import xtcl
from xtcl.device import parse_memory

SIZES = [
    # One array of all pairs would take 576 MB, more than libraries leave of the budget.
    (12_000, 8, 8, "1000MB"),
    # Exact mode: nearly all pairs share neighbours, and are listed while topology computes them.
    (2_000, 60, 0, "800MB"),
    pytest.param(100_000, 8, 8, "3GB", marks=pytest.mark.large),
]


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(("nodes", "degree", "cap", "memory"), SIZES)
def test_within_an_address_space_of_the_budget(
    nodes: int, degree: int, cap: int, memory: str
) -> None:
    script = Path(__file__).parent / "limited_process.py"
    found = subprocess.run(  # noqa: S603
        [sys.executable, str(script), *map(str, (nodes, degree, cap)), memory],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ
        | {"PYTHONPATH": str(Path(xtcl.__file__).parents[1]), "OMP_NUM_THREADS": "1"},
    )
    assert found.returncode == 0, found.stderr
    assert int(found.stdout) <= parse_memory(memory)
