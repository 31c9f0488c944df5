"""Many processes at once, and processes that die in the middle."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from small_stores import QUANTILES, files, listed, open_or_compute
from writer_process import EXPECTED, RELATIONS, VIEW

import xtcl
from xtcl.relations.store.relation_store import RelationStore

pytestmark = pytest.mark.slow


HELPERS = Path(__file__).parents[2] / "helpers"


def start(*arguments: object) -> subprocess.Popen[str]:
    paths = (Path(xtcl.__file__).parents[1], HELPERS)
    return subprocess.Popen(  # noqa: S603
        [sys.executable, str(HELPERS / "writer_process.py"), *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(map(str, paths)), "OMP_NUM_THREADS": "1"},
    )


def finish(process: subprocess.Popen[str]) -> None:
    out, err = process.communicate(timeout=300)
    assert (process.returncode, out) == (0, "ok\n"), err


def test_writers_readers_and_evictions_at_once(tmp_path: Path) -> None:
    processes = [start(tmp_path, seed) for seed in range(3)]
    for process in processes:
        finish(process)
    assert {path.suffix for path in files(RelationStore(tmp_path))} <= {".parquet"}


def test_writers_killed_at_random_moments_leave_a_readable_store(tmp_path: Path) -> None:
    finish(start(tmp_path, 0, 40))
    store = RelationStore(tmp_path)
    for relation, expected in zip(RELATIONS, EXPECTED, strict=True):
        with open_or_compute(store, VIEW, relation, QUANTILES) as stored:
            assert listed(stored.rows(0, 40)) == expected
