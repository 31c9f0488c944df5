"""A whole fit of a large graph in top-k mode: seconds and peak memory of every stage.

    python benchmarks/large_fit.py [--nodes 100000] [--memory GB] [--cap 32] [--index-past 0]
        [--epochs 0] [--device cpu] [--positives-only] [--fit-only]

A block model with ten links a node, 128 attributes, 8 classes, and a tenth of the nodes labelled.
The fit runs in a process of its own, from the graph to the run directory. For every stage it prints
the predicted (on a CPU) and the measured peak, all memory of the process with the interpreter and
its libraries, and seconds. Measured is the peak of the resident memory (VmHWM), set back when a
stage ends, so that a stage's peak is no less than what the one before it left. `--epochs` trains
for fewer than the recipe says, which changes the seconds of training and no peak;
`--positives-only` ends where training would begin, `--fit-only` where the run would be written.
"""

from __future__ import annotations

import argparse
import multiprocessing
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from stage_meter import HEAD, StageMeter, Taken, status_bytes

from xtcl.device import parse_memory, set_mmap_threshold
from xtcl.progress import Advance

GIB = 2**30


class EnoughError(Exception):
    """Ends a fit that was asked for no more."""


@dataclass
class ToldMeter(StageMeter):
    """Tells of every stage when it ends, and ends the fit where training would begin."""

    positives_only: bool = False

    @contextmanager
    def stage(self, name: str, steps: int) -> Iterator[Advance]:
        """Note one stage of the fit."""
        if name == "training" and self.positives_only:
            raise EnoughError
        start = time.perf_counter()
        with super().stage(name, steps) as advance:
            yield advance
        print(f"{name}: {time.perf_counter() - start:.1f} s", flush=True)


def measure(chosen: argparse.Namespace) -> None:
    """Fit once and print what was predicted and what was taken."""
    import torch

    from xtcl.estimator import XTCL
    from xtcl.graph.datasets.synthetic import block_model
    from xtcl.graph.splits import node_split

    graph = block_model(
        chosen.nodes, num_classes=8, num_attributes=128, mean_degree=20, attribute_signal=0.5
    )
    split = node_split(graph, 0.1, seed=0)
    print(
        f"{graph.num_nodes:,} nodes, {graph.num_edges:,} links, {torch.get_num_threads()} threads"
    )
    print(f"before the fit: {status_bytes('VmRSS') / GIB:.2f} GB")
    meter = ToldMeter(positives_only=chosen.positives_only)
    model = XTCL(
        "nodes",
        "gcn",
        cap=chosen.cap,
        index_past=chosen.index_past or None,
        epochs=chosen.epochs or None,
        memory=chosen.memory,
        device=chosen.device,
        progress=meter,
    )
    plan = model.memory_plan(graph, split)
    for note in plan.notes:
        print(note)
    print(f"blocks of {plan.block_rows:,} nodes")
    for member in plan.recipe.ensembles[0].encoders:
        training = member.training
        print(f"{training.epochs} epochs, anchors {training.anchors}, {training.batch}", flush=True)
    if chosen.memory is not None:
        set_mmap_threshold()  # as the command line does
    try:
        model.fit(graph, split)
        meter.mark(HEAD)
        if chosen.fit_only:
            raise EnoughError
        with tempfile.TemporaryDirectory() as folder:
            model.save(Path(folder) / "run", split=split)
            meter.mark("writing")
        print(f"accuracy {100 * model.score(split):.2f} %")
        meter.mark("scoring")
    except EnoughError:
        pass
    sampler = getattr(model, "sampler_", None)  # a fit that was ended has none
    for name, recall in ({} if sampler is None else sampler.index_recall_).items():
        print(f"an index finds {recall:.0%} of the nearest by {name}")
    row = "{:<10} {:>12} {:>12} {:>12} {:>12}"
    print(row.format("stage", "predicted GB", "measured GB", "clock s", "CPU s"))
    predicted = {stage.name: f"{stage.peak / GIB:.2f}" for stage in plan.stages}
    predicted["everything"] = f"{plan.peak / GIB:.2f}"
    if chosen.device == "cuda":  # the plan is about the memory of the GPU, which is printed below
        predicted.clear()
    for name, taken in meter.taken.items():
        print(row.format(name, predicted.get(name, ""), *_taken(taken)))
    whole = Taken(
        sum(taken.seconds for taken in meter.taken.values()),
        sum(taken.cpu_seconds for taken in meter.taken.values()),
        max(taken.peak for taken in meter.taken.values()),
    )
    print(row.format("everything", predicted.get("everything", ""), *_taken(whole)))
    peak = whole.peak
    if chosen.device == "cuda":  # whose memory the budget is for
        used, peak = torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()
        print(
            f"memory of the GPU: {plan.peak / GIB:.1f} GB predicted, "
            f"{used / GIB:.1f} in use, {peak / GIB:.1f} with what torch kept"
        )
    if chosen.memory is not None:
        kept = peak <= parse_memory(chosen.memory)
        print(f"budget {chosen.memory}: {'kept' if kept else 'NOT KEPT'}")


def _taken(taken: Taken) -> tuple[str, str, str]:
    return f"{taken.peak / GIB:.2f}", f"{taken.seconds:.1f}", f"{taken.cpu_seconds:.1f}"


def main() -> None:
    """Fit in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=100_000)
    parser.add_argument("--cap", type=int, default=32)
    parser.add_argument("--index-past", type=int, default=0, help="0: exact search")
    parser.add_argument("--memory", help="such as 3GB; no budget by default")
    parser.add_argument("--epochs", type=int, default=0, help="0: those of the recipe")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--positives-only", action="store_true")
    parser.add_argument("--fit-only", action="store_true")
    chosen = parser.parse_args()
    process = multiprocessing.get_context("spawn").Process(target=measure, args=(chosen,))
    process.start()
    process.join()


if __name__ == "__main__":
    main()
