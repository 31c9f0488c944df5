"""Predicted and measured peak memory of fits, and their seconds, each in a process of its own.

    python benchmarks/memory_plan.py [--sizes 5000,20000] [--modes exact,32] [--memory none,1.5GB]

Block models with ten links and 64 attributes a node, a tenth labelled, and encoders of width 256
trained for two epochs: enough for every stage to reach its peak. Measured is the peak of the
resident memory of the whole process, with the interpreter and its libraries: a budget is kept where
that is no more than it. A budget that is refused is a row, too.
"""

from __future__ import annotations

import argparse
import multiprocessing

ROW = "{:>7} {:<7} {:>8} {:>12} {:>7} {:>12} {:>8} {:>6} {:>6}"


def measure(nodes: int, cap: int | None, memory: str | None, width: int) -> None:
    """Fit once and print a row."""
    from stage_meter import HEAD, StageMeter

    from xtcl.device import parse_memory, set_mmap_threshold
    from xtcl.errors import BudgetError
    from xtcl.estimator import XTCL
    from xtcl.graph.datasets.synthetic import block_model
    from xtcl.graph.splits import node_split

    graph = block_model(nodes, num_attributes=64, mean_degree=10, attribute_signal=0.5)
    split = node_split(graph, 0.1, seed=0)
    meter = StageMeter()
    model = XTCL(cap=cap, epochs=2, width=width, memory=memory, device="cpu", progress=meter)
    asked = (f"{nodes:,}", "exact" if cap is None else f"top-{cap}", memory or "none")
    try:
        plan = model.memory_plan(graph, split)
    except BudgetError as refused:
        print(ROW.format(*asked, "refused", "", *[""] * 4), " ", refused, flush=True)
        return
    if memory is not None:
        set_mmap_threshold()  # as the command line does
    model.fit(graph, split)
    meter.mark(HEAD)
    peak = max(taken.peak for taken in meter.taken.values())
    kept = "" if memory is None else "yes" if peak <= parse_memory(memory) else "NO"
    print(
        ROW.format(
            *asked,
            "mini-batches" if plan.mini_batches else "full graph",
            plan.block_rows,
            f"{plan.peak / 2**30:.2f}",
            f"{peak / 2**30:.2f}",
            f"{sum(taken.cpu_seconds for taken in meter.taken.values()):.0f}",
            kept,
        ),
        flush=True,
    )


def main() -> None:
    """One process for each graph, mode and budget."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default="5000,20000")
    parser.add_argument("--modes", default="exact,32", help="exact, or the cap of top-k mode")
    parser.add_argument("--memory", default="none,1GB,800MB")
    parser.add_argument("--width", type=int, default=256)
    chosen = parser.parse_args()
    heads = ("nodes", "mode", "budget", "training", "blocks", "GB predicted", "GB", "CPU s")
    print(ROW.format(*heads, "kept"), flush=True)
    fresh = multiprocessing.get_context("spawn")
    for size in chosen.sizes.split(","):
        for mode in chosen.modes.split(","):
            for memory in chosen.memory.split(","):
                cap = None if mode == "exact" else int(mode)
                budget = None if memory == "none" else memory
                asked = (int(size), cap, budget, chosen.width)
                process = fresh.Process(target=measure, args=asked)
                process.start()
                process.join()


if __name__ == "__main__":
    main()
