"""Seconds and peak memory of each stage of a fit, for Cora and PubMed.

    python benchmarks/fit.py [--datasets cora,pubmed] [--task nodes] [--device cpu] [--repeats 1]
        [--data DIR]

Each data set runs in a process of its own, so that its peak is its own; of several repeats the last
is printed, for which everything has been loaded (warm). What of the fit is in no stage is the head.
PubMed needs its raw files under --data or XTCL_DATA and is left out, with a line that says so,
where they are not there. The peak is that of the process, not of a GPU.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager

from xtcl.errors import XTCLError
from xtcl.progress import Advance, Progress


class Stopwatch(Progress):
    """Takes the time and the peak memory of every stage."""

    def __init__(self) -> None:
        self.stages: list[dict[str, object]] = []

    @contextmanager
    def stage(self, name: str, steps: int) -> Iterator[Advance]:
        """Time one stage, to the end of what a GPU still has to do."""
        import torch

        start = time.perf_counter()
        yield lambda done: None
        if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            torch.cuda.synchronize()
        self.add(name, start)

    def add(self, name: str, start: float) -> None:
        """Note a stage that began at `start` and ends now."""
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        took = time.perf_counter() - start
        self.stages.append({"stage": name, "seconds": round(took, 2), "peak_gb": round(peak, 2)})


def measure(name: str, task: str, device: str, repeats: int, data: str | None) -> None:
    """Fit and print the stages as one JSON object."""
    from xtcl.baselines.method import XTCLGCN
    from xtcl.device import pick_device
    from xtcl.graph.datasets.load import load_dataset
    from xtcl.model_selection.evaluation import make_split, score_method

    for _ in range(repeats):
        stopwatch = Stopwatch()
        start = time.perf_counter()
        try:
            graph = load_dataset(name, data)
        except XTCLError as error:
            print(json.dumps({"dataset": name, "left out": str(error)}))
            return
        stopwatch.add("loading", start)
        figure, seconds = score_method(
            graph,
            make_split(graph, task, 0),
            XTCLGCN(),
            seed=0,
            device=pick_device(device),
            progress=stopwatch,
        )
        stopwatch.add("everything", start)
    print(
        json.dumps(
            {
                "dataset": name,
                "task": task,
                "figure": round(100 * figure, 2),
                "fit_seconds": round(seconds, 2),
                "stages": stopwatch.stages,
            }
        )
    )


def main() -> None:
    """Measure each data set in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--datasets", default="cora,pubmed")
    parser.add_argument("--task", default="nodes")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--data", default=os.environ.get("XTCL_DATA"))
    chosen = parser.parse_args()
    fresh = multiprocessing.get_context("spawn")
    for name in chosen.datasets.split(","):
        work = (name, chosen.task, chosen.device, chosen.repeats, chosen.data)
        process = fresh.Process(target=measure, args=work)
        process.start()
        process.join()


if __name__ == "__main__":
    main()
