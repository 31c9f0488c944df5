"""A fit of a large graph that may map no more memory than its budget leaves; prints the peak."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

import torch
from rich.console import Console

from xtcl.cli.console import Bars
from xtcl.device import parse_memory, set_mmap_threshold
from xtcl.estimator import XTCL
from xtcl.graph.datasets.synthetic import block_model
from xtcl.graph.splits import node_split


def status_bytes(name: str) -> int:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))


def fit(nodes: int, degree: int, cap: int, memory: str) -> None:
    graph = block_model(nodes, num_attributes=32, mean_degree=degree)
    split = node_split(graph, 0.05, seed=0)
    # As the command line does; the library leaves the allocator alone.
    set_mmap_threshold()
    bars = Bars(Console(stderr=True, quiet=True))
    model = XTCL(cap=cap or None, width=128, epochs=1, memory=memory, device="cpu", progress=bars)
    # What libraries map and never touch is no memory: the limit counts from a first fit on.
    small = block_model(60, num_attributes=8, mean_degree=4)
    XTCL(epochs=1, width=8, device="cpu").fit(small, node_split(small, 0.5, seed=0))
    allowed = status_bytes("VmSize") + parse_memory(memory) - status_bytes("VmRSS")
    resource.setrlimit(resource.RLIMIT_AS, (allowed, allowed))
    model.fit(graph, split)
    assert model.score(split) > 0.5
    print(status_bytes("VmHWM"))


if __name__ == "__main__":
    torch.set_num_threads(1)
    fit(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
