"""Seconds and peak memory of the nearest rows of each relation, on random graphs, and their growth.

    python benchmarks/nearest_rows.py [--sizes 4000,8000,...] [--cap 32] [--index-past N] [--json]
                                      [--device cuda]

A graph has 10 random links a node, 128 attributes in clusters, 8 classes and labels for a tenth of
the nodes. Every measurement runs in a process of its own; its memory is the peak above what the
process held when the graph was there. Seconds are those of one core, so that other work on the
machine does not count; preparation does. With a GPU it is the time that passes, and the memory is
the GPU's. Graph distance stops looking for D after 32 searches.
The attribute label distribution needs all nearest rows of the attribute distribution first, so its
time is both; a fit shares them.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import time
from collections.abc import Callable
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import torch

from xtcl.lab.experiments.training_time import fit_growth
from xtcl.relations.registry import make_relation, relation_names
from xtcl.relations.topk import TopK, topk_search
from xtcl.relations.view import TrainingView

BLOCK = 2**14
MILLION = 10**6
OPTIONS = {"graph-distance": {"searches": 32}}


def random_view(count: int, seed: int = 0, links_a_node: int = 10) -> TrainingView:
    """A random graph whose attributes lie in clusters, a hundred nodes each."""
    rng = np.random.default_rng(seed)
    cluster = rng.integers(max(count // 100, 1), size=count)
    centres = rng.normal(size=(cluster.max() + 1, 128)).astype(np.float32)
    noise = rng.normal(size=(count, 128)).astype(np.float32)
    labels = np.where(rng.random(count) < 0.1, cluster % 8, -1)
    links = rng.integers(count, size=(2, links_a_node * count))
    return TrainingView(
        attributes=centres[cluster] + noise,
        adjacency=TrainingView.adjacency_of(links[:, links[0] != links[1]], count),
        labels=labels,
        num_classes=8,
    )


def measure(
    name: str, count: int, cap: int, index_past: int | None, device: str, answer: Connection
) -> None:
    """Find the nearest rows of all nodes and send what it took."""
    torch.set_num_threads(1)
    view = replace(random_view(count), device=torch.device(device))
    torch.zeros(1, device=device).sum().item()  # what a GPU needs once is not counted
    before = memory_held()
    clock = time.process_time if device == "cpu" else time.perf_counter
    start = clock()
    relation = make_relation(name, **OPTIONS.get(name, {}))
    find = topk_search(relation, view, TopK.of(0.99, cap, count, index_past))
    prepared = clock() - start
    listed, alike = 0, 0.0
    for nodes in torch.split(torch.arange(count), BLOCK):
        found = find(nodes)
        listed, alike = listed + len(found.node), alike + float(found.values.sum())
    took = clock() - start
    peak = most_memory() - before if device == "cpu" else torch.cuda.max_memory_allocated()
    answer.send(
        {
            "relation": name,
            "nodes": count,
            "seconds": took,
            "preparation": prepared,
            "peak_mb": peak / 2**20,
            "pairs_a_node": listed / count,
            "mean_similarity": alike / max(listed, 1),
            "recall_of_index": getattr(find, "index_recall", None),
        }
    )


def memory_held() -> int:
    """Bytes of this process now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def most_memory() -> int:
    """Bytes of this process at its peak."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def in_own_process(measure: Callable[..., None], *arguments: Any) -> dict[str, Any]:
    """What `measure` sends from a fresh process, through its last argument."""
    fresh = multiprocessing.get_context("spawn")
    here, there = fresh.Pipe(duplex=False)
    process = fresh.Process(target=measure, args=(*arguments, there))
    process.start()
    found: dict[str, Any] = here.recv()
    process.join()
    return found


def table(found: list[dict[str, Any]]) -> str:
    """One line a relation: seconds at every size, exponents, memory, and minutes at a million.

    Fixed costs of small graphs hide growth, so the last step counts too: from the largest size on
    the larger of the fitted exponent and that of the last step is taken.
    """
    sizes = sorted({entry["nodes"] for entry in found})
    heads = [*(f"{size:,}" for size in sizes), "exponent", "last step", "peak MB", "1M (min)"]
    lines = [f"{'relation':29}" + "".join(f"{head:>10}" for head in heads)]
    total = 0.0
    for name in dict.fromkeys(entry["relation"] for entry in found):
        own = sorted((e for e in found if e["relation"] == name), key=lambda e: int(e["nodes"]))
        seconds = [entry["seconds"] for entry in own]
        line = f"{name:29}" + "".join(f"{second:10.2f}" for second in seconds)
        if len(own) > 2:
            exponent = fit_growth(sizes, seconds).exponent
            last = float(np.log(seconds[-1] / seconds[-2]) / np.log(sizes[-1] / sizes[-2]))
            minutes = seconds[-1] * (MILLION / sizes[-1]) ** max(exponent, last) / 60
            total += minutes
            line += f"{exponent:10.2f}{last:10.2f}{own[-1]['peak_mb']:10.0f}{minutes:10.1f}"
        lines.append(line)
    return "\n".join([*lines, f"all together at a million nodes, one core: {total:.0f} minutes"])


def main() -> None:
    """Measure, print a line each, then the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default="4000,8000,16000,32000,64000")
    parser.add_argument("--relations", default=",".join(relation_names()))
    parser.add_argument("--cap", type=int, default=32)
    parser.add_argument("--index-past", type=int)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--json", action="store_true", help="print one JSON object a measurement")
    chosen = parser.parse_args()
    found = []
    for name in chosen.relations.split(","):
        for size in chosen.sizes.split(","):
            options = (chosen.cap, chosen.index_past, chosen.device)
            found.append(in_own_process(measure, name, int(size), *options))
            if chosen.json:
                print(json.dumps(found[-1]), flush=True)
    print(table(found))


if __name__ == "__main__":
    main()
