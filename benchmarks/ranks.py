"""Relations, sampler and positives by several gloo ranks of one thread each, against one such rank.

    python benchmarks/ranks.py --out DIR [--nodes 4000] [--ranks 2] [--tasks nodes,links] [--cap K]

Random graphs with 128 attributes in clusters, 10 links a node and labels for a tenth of the nodes.
Every measurement starts processes of its own, and begins when all of them have the graph. `seconds`
are those on the clock, which others who use the machine make longer; `cpu_seconds` are those of the
rank that worked longest, which says how evenly the work was divided. Counts and positives are
compared to the bit. DIR gets `ranks.json`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from nearest_rows import random_view

from xtcl.config import SamplerConfig
from xtcl.distributed import distributed
from xtcl.sampling.xgsampler import XGSampler
from xtcl.tasks import make_task

POSITIVES = 20


def work(rank: int, number: int, folder: str, count: int, task: str, cap: int | None) -> None:
    """One rank: fit the sampler, find positives, and write down what they took and were."""
    torch.set_num_threads(1)
    view = random_view(count, links_a_node=10)
    if task == "links":
        view = replace(view, labels=np.full(count, -1))
    folds = make_task(task).folds(view, 5, np.random.default_rng(0))
    meeting = f"file://{folder}/meeting"
    dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=number)
    with distributed():
        dist.barrier()
        marks = [(time.perf_counter(), time.process_time())]
        sampler = XGSampler("paper", SamplerConfig(cap=cap)).fit_folds(view, folds)
        marks.append((time.perf_counter(), time.process_time()))
        found = sampler.positives(POSITIVES, exclude=view.adjacency if task == "links" else None)
        marks.append((time.perf_counter(), time.process_time()))
    dist.destroy_process_group()
    counted = sampler.counts_
    arrays = (counted.codes, counted.counts, found.nodes, found.scores)
    digests = [hashlib.sha256(np.ascontiguousarray(a).tobytes()).hexdigest() for a in arrays]
    stages = {"learning": np.diff(marks[:2], axis=0)[0], "positives": np.diff(marks[1:], axis=0)[0]}
    took = {stage: both.tolist() for stage, both in stages.items()}
    Path(folder, f"{rank}.json").write_text(json.dumps({"took": took, "digests": digests}))


def measure(number: int, count: int, task: str, cap: int | None) -> dict[str, Any]:
    """Seconds of each stage by the clock and by the longest worker, and what was found."""
    with tempfile.TemporaryDirectory() as folder:
        fresh = multiprocessing.get_context("spawn")
        processes = [
            fresh.Process(target=work, args=(rank, number, folder, count, task, cap))
            for rank in range(number)
        ]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
            assert process.exitcode == 0, f"a rank of {number} failed"
        records = [json.loads(Path(folder, f"{rank}.json").read_text()) for rank in range(number)]
    took = np.array([list(one["took"].values()) for one in records])  # [rank, stage, clock or CPU]
    clock, cpu = took.max(axis=0).T
    whole = took.sum(axis=1).max(axis=0)
    return {
        "ranks": number,
        "seconds": round(float(whole[0]), 2),
        "cpu_seconds": round(float(whole[1]), 2),
        "learning_s": [round(float(seconds[0]), 2) for seconds in (clock, cpu)],
        "positives_s": [round(float(seconds[1]), 2) for seconds in (clock, cpu)],
        "digests": [one["digests"] for one in records],
    }


def compare(number: int, count: int, task: str, cap: int | None) -> dict[str, Any]:
    """One rank and several, one after the other."""
    one, many = measure(1, count, task, cap), measure(number, count, task, cap)
    expected = one.pop("digests")[0]
    identical = all(digests == expected for digests in many.pop("digests"))
    assert identical, "ranks found other counts or positives than one process"
    return {
        "nodes": count,
        "task": task,
        "mode": "exact" if cap is None else f"top-{cap}",
        "one": one,
        "many": many,
        "ratio": round(one["seconds"] / many["seconds"], 2),
        "cpu_ratio": round(one["cpu_seconds"] / many["cpu_seconds"], 2),
        "identical": identical,
    }


def main() -> None:
    """Compare in exact mode, and in top-k mode where a cap is given."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--nodes", type=int, default=4000)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--tasks", default="nodes,links")
    parser.add_argument("--cap", type=int)
    chosen = parser.parse_args()
    found = []
    for task in chosen.tasks.split(","):
        found.append(compare(chosen.ranks, chosen.nodes, task, chosen.cap))
        print(json.dumps(found[-1]), flush=True)
    chosen.out.mkdir(parents=True, exist_ok=True)
    (chosen.out / "ranks.json").write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
