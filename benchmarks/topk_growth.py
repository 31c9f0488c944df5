"""From a graph to every node's positives: seconds and peak memory in top-k and exact mode.

    python benchmarks/topk_growth.py --out DIR [--sizes 4000,8000,...] [--task nodes] [--cap 32]
        [--index-past 16000] [--exact-up-to 8000] [--links 10]

Random graphs with 128 attributes in clusters, 8 classes and labels for a tenth of the nodes. The
stages are those of a fit before training: cross-fitted counts of patterns (`learning`), and the 20
best of every node (`positives`); for links also the relations' similarities of V pairs (`pairs`),
as a link scorer asks for them. Relations are part of each stage, and `of_it_index` is what building
and searching the indices of attributes and labels took of all. Every measurement runs in a
process of its own; its memory is the peak above what the process held when the graph was there.
Seconds are those of one core. DIR gets `topk_growth.json` and `topk_growth.md`.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import torch
from nearest_rows import in_own_process, memory_held, most_memory, random_view

from xtcl.config import SamplerConfig
from xtcl.lab.experiments.training_time import fit_growth
from xtcl.relations.search import IndexSearch
from xtcl.sampling.xgsampler import XGSampler
from xtcl.tasks import make_task

POSITIVES = 20
STAGES = ("learning", "positives", "pairs")


def measure(
    count: int, task: str, links: int, cap: int | None, index_past: int | None, answer: Connection
) -> None:
    """Fit the sampler, find positives, look pairs up; send what each took."""
    torch.set_num_threads(1)
    spent = clock_index()
    view = random_view(count, links_a_node=links)
    if task == "links":
        view = replace(view, labels=np.full(count, -1))
    past = None if cap is None else index_past
    before = memory_held()
    marks = [time.process_time()]
    rng = np.random.default_rng(0)
    sampler = XGSampler("paper", SamplerConfig(cap=cap, index_past=past))
    sampler.fit_folds(view, make_task(task).folds(view, 5, rng))
    marks.append(time.process_time())
    sampler.positives(POSITIVES, exclude=view.adjacency if task == "links" else None)
    marks.append(time.process_time())
    if task == "links":
        sampler.similarities(rng.integers(count, size=(2, count)))
    marks.append(time.process_time())
    answer.send(
        {
            "mode": "exact" if cap is None else f"top-{cap}",
            "task": task,
            "nodes": count,
            "links": links * count,
            "index_past": past,
            "seconds": marks[-1] - marks[0],
            **dict(zip(STAGES, np.diff(marks).tolist(), strict=True)),
            "of_it_index": sum(spent),
            "peak_mb": (most_memory() - before) / 2**20,
        }
    )


def clock_index() -> list[float]:
    """A list that gets the seconds of everything the index of FAISS does from now on."""
    spent: list[float] = []

    def clocked(method: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*arguments: Any) -> Any:
            inner, start = len(spent), time.process_time()
            answer = method(*arguments)
            # Building an index searches it, too: what that took is part of this.
            spent[inner:] = [time.process_time() - start]
            return answer

        return timed

    IndexSearch.__init__ = clocked(IndexSearch.__init__)  # type: ignore[method-assign]
    IndexSearch.__call__ = clocked(IndexSearch.__call__)  # type: ignore[method-assign]
    return spent


def table(found: list[dict[str, Any]]) -> str:
    """A line a measurement, in Markdown, and the growth of each mode."""
    heads = ("mode", "nodes", "seconds", *STAGES, "peak MB")
    lines = [" | ".join(("", *heads, "")).strip(), "|" + "---|" * len(heads)]
    for entry in found:
        figures = [f"{entry[name]:.1f}" for name in ("seconds", *STAGES)]
        cells = (entry["mode"], f"{entry['nodes']:,}", *figures, f"{entry['peak_mb']:.0f}")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join([*lines, "", *growth_lines(found)])


def growth_lines(found: list[dict[str, Any]]) -> list[str]:
    """The fitted exponent of each mode that was measured at three sizes or more."""
    lines = []
    for mode in dict.fromkeys(entry["mode"] for entry in found):
        own = [entry for entry in found if entry["mode"] == mode]
        if len(own) > 2:
            growth = fit_growth([e["nodes"] for e in own], [e["seconds"] for e in own])
            lines.append(
                f"{mode}: seconds grow with V^{growth.exponent:.2f} "
                f"({growth.low:.2f} to {growth.high:.2f})"
            )
    return lines


def main() -> None:
    """Measure, and write the figures after each size: the next one may take long."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default="4000,8000,16000,32000,64000")
    parser.add_argument("--task", choices=("nodes", "links"), default="nodes")
    parser.add_argument("--links", type=int, default=10, help="random links a node")
    parser.add_argument("--cap", type=int, default=32)
    parser.add_argument("--index-past", type=int, default=16000)
    parser.add_argument("--exact-up-to", type=int, default=8000)
    parser.add_argument("--out", type=Path, required=True)
    chosen = parser.parse_args()
    chosen.out.mkdir(parents=True, exist_ok=True)
    found: list[dict[str, Any]] = []
    for size in (int(size) for size in chosen.sizes.split(",")):
        modes = [chosen.cap] if size > chosen.exact_up_to else [chosen.cap, None]
        for cap in modes:
            asked = (size, chosen.task, chosen.links, cap, chosen.index_past)
            found.append(in_own_process(measure, *asked))
            print(json.dumps(found[-1]), flush=True)
            text = json.dumps(found, indent=1) + "\n"
            (chosen.out / "topk_growth.json").write_text(text, encoding="utf-8")
            (chosen.out / "topk_growth.md").write_text(table(found) + "\n", encoding="utf-8")
    print(table(found))


if __name__ == "__main__":
    main()
