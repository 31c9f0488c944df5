"""Processes that share a fit, started without torchrun: they meet by a file."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
import torch.distributed as dist

import xtcl
from xtcl.distributed import distributed


def run_ranks(script: str, number: int, folder: Path) -> None:
    """Run `script` in so many processes, each of them inside `taking_part`, and wait for all."""
    paths = [Path(xtcl.__file__).parents[1], Path(__file__).parents[1]]
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(map(str, paths)),
        "OMP_NUM_THREADS": "1",
    }
    processes = [
        subprocess.Popen(  # noqa: S603
            [sys.executable, script, str(rank), str(number), str(folder)],
            env=environment,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(number)
    ]
    for process in processes:
        _, said = process.communicate(timeout=300)
        assert process.returncode == 0, said


@contextmanager
def taking_part() -> Iterator[tuple[int, Path]]:
    """One of the processes of `run_ranks`: its number, and the folder for what it found."""
    rank, number, folder = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    torch.set_num_threads(1)
    meeting = f"file://{folder / 'meeting'}"
    dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=number)
    with distributed() as group:
        assert group.world_size == number
        yield rank, folder
    dist.destroy_process_group()
