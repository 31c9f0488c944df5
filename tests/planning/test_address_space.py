"""A large fit keeps its budget: the system gives it no more.

`benchmarks/large_fit.py` does the same with 100,000 nodes, in minutes.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import xtcl
from xtcl.memory import parse_memory

NODES, MEMORY = 12_000, "1000MB"
"""One array of all pairs would take 576 MB, more than the libraries leave of the budget."""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_within_an_address_space_of_the_budget() -> None:
    script = Path(__file__).parent / "limited_process.py"
    found = subprocess.run(  # noqa: S603
        [sys.executable, str(script), str(NODES), MEMORY],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ
        | {"PYTHONPATH": str(Path(xtcl.__file__).parents[1]), "OMP_NUM_THREADS": "1"},
    )
    assert found.returncode == 0, found.stderr
    assert int(found.stdout) <= parse_memory(MEMORY)
