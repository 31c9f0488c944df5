"""f_u(v) of many pairs of Cora in one call, against one call of `explain` for each pair.

    OMP_NUM_THREADS=2 python benchmarks/bulk_probabilities.py [--nodes 100] [--single 20]

The sampler is fitted on the labels of a tenth of the nodes. "first call" is `predict_proba` right
after the fit, "next call" the same once more. One call for a pair is timed for --single pairs after
that, and the row "one by one" is what all pairs of the nodes would take at that rate. Seconds are
of the clock; CPU seconds are of all threads.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial

import numpy as np

from xtcl import XGSampler, load_dataset, node_split
from xtcl.report.charts import table


def seconds(work: Callable[[], object]) -> tuple[float, float]:
    """Of the clock and of the CPU."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - cpu


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--single", type=int, default=20)
    chosen = parser.parse_args()
    graph = load_dataset("cora")
    assert graph.labels is not None
    labels = np.full(graph.num_nodes, -1)
    train = node_split(graph, 0.1, seed=0).train
    labels[train] = graph.labels[train]
    nodes = np.random.default_rng(0).choice(graph.num_nodes, chosen.nodes, replace=False)
    pairs = np.stack([np.repeat(nodes, len(nodes)), np.tile(nodes, len(nodes))])
    square = f"{len(nodes)} x {len(nodes)} pairs"
    rows: list[tuple[str, str, float, float]] = []
    for what, asked in ((square, pairs), (f"{len(nodes)} x {graph.num_nodes} pairs", nodes)):
        sampler = XGSampler().fit(graph, labels)
        for call in ("first call", "next call"):
            spent = seconds(partial(sampler.predict_proba, asked))
            rows += [(what, call, *spent)]
    some = pairs[:, :: pairs.shape[1] // chosen.single][:, : chosen.single]
    wall, cpu = seconds(lambda: [sampler.explain(int(u), int(v)) for u, v in some.T])
    share = pairs.shape[1] / some.shape[1]
    rows += [(square, "one by one", share * wall, share * cpu)]
    cells = [[what, call, f"{wall:.3g}", f"{cpu:.3g}"] for what, call, wall, cpu in rows]
    print(table(["", "", "seconds", "CPU seconds"], cells))


if __name__ == "__main__":
    main()
