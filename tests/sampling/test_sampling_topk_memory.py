"""Top-k mode on 20,000 nodes takes less memory than one array of all pairs would."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import xtcl

COUNT = 20_000


@pytest.mark.parametrize("task", ["nodes", "links"])
def test_no_array_of_all_pairs(task: str) -> None:
    """For nodes all of them are labelled: even a table of bytes would be 400 MB."""
    script = Path(__file__).parent / "topk_process.py"
    source = str(Path(xtcl.__file__).parents[1])
    found = subprocess.run(  # noqa: S603
        [sys.executable, str(script), task, str(COUNT)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": source, "OMP_NUM_THREADS": "1"},
    )
    assert found.returncode == 0, found.stderr
    assert int(found.stdout) < COUNT**2 * 0.75
