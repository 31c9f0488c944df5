"""How the seconds of a whole fit in top-k mode grow with the graph, stage by stage.

    python benchmarks/fit_growth.py --out DIR [--sizes 4000,8000,...] [--cap 32]
        [--index-past 16000]

Block models with ten links a node, 128 attributes, 8 classes, and a tenth of the nodes labelled.
Every fit runs in a process of its own with one thread, and seconds are those of its core. Encoders
are trained in mini-batches at every size (over the whole graph, steps would grow with it as well),
for one epoch each: an epoch is a pass over all nodes, or over those that are drawn for it, and how
many there are is the recipe's, not the graph's. So `whole` is what was measured with the epochs of
the recipe put in for the one. DIR gets `fit_growth.json`, `.md`, `.png` and `.svg` after each size.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import torch
from nearest_rows import in_own_process, most_memory

from xtcl.config import BatchConfig, EncoderConfig
from xtcl.estimator import XTCL
from xtcl.graph.datasets.synthetic import block_model
from xtcl.graph.splits import node_split
from xtcl.lab.experiments.training_time import fit_growth
from xtcl.progress import Advance, Progress
from xtcl.report.charts import PALETTE, picture
from xtcl.tasks import make_task

STAGES = ("relations", "positives", "first encoder", "second encoder", "embedding and head")
ENCODERS = (2, 3)


@dataclass
class StageClock(Progress):
    """Seconds of the core when each stage ended; those of an encoder end with its epoch."""

    ends: list[float] = field(default_factory=list)

    @contextmanager
    def stage(self, name: str, steps: int) -> Iterator[Advance]:
        """Note one stage of the fit."""
        yield lambda done: self.ends.append(time.process_time()) if name == "training" else None
        if name != "training":
            self.ends.append(time.process_time())


def in_mini_batches(member: EncoderConfig) -> EncoderConfig:
    """The member, trained on no more than its steps need: ten neighbours for each layer."""
    layers = member.encoder.get("layers", 1)
    assert isinstance(layers, int)
    batch = BatchConfig(neighbours=(10,) * (layers - 1))
    return replace(member, training=replace(member.training, batch=batch))


def measure(count: int, cap: int, index_past: int, answer: Connection) -> None:
    """Fit once; send what each stage took."""
    torch.set_num_threads(1)
    graph = block_model(
        count, num_classes=8, num_attributes=128, mean_degree=20, attribute_signal=0.5
    )
    split = node_split(graph, 0.1, seed=0)
    clock = StageClock()
    usual = make_task("nodes").recipe("gcn")
    epochs = [member.training.epochs for member in usual.ensembles[0].encoders]
    model = XTCL(
        "nodes",
        "gcn",
        recipe=usual.map_encoders(in_mini_batches),
        cap=cap,
        index_past=index_past,
        epochs=1,
        device="cpu",
        progress=clock,
    )
    start = time.process_time()
    model.fit(graph, split)
    seconds = np.diff([start, *clock.ends, time.process_time()]).tolist()
    times = [1, 1, *epochs, 1]
    answer.send(
        {
            "nodes": count,
            "links": graph.num_edges,
            **dict(zip(STAGES, seconds, strict=True)),
            "one epoch": sum(seconds),
            "whole": sum(part * often for part, often in zip(seconds, times, strict=True)),
            "peak_mb": most_memory() / 2**20,
        }
    )


def table(found: list[dict[str, Any]]) -> str:
    """A line a size, in Markdown, and the growth of each stage."""
    heads = ("nodes", *STAGES, "one epoch", "whole")
    lines = ["| " + " | ".join((*heads, "peak MB")) + " |", "|" + "---|" * (len(heads) + 1)]
    for entry in found:
        figures = [f"{entry[name]:.1f}" for name in heads[1:]]
        cells = (f"{entry['nodes']:,}", *figures, f"{entry['peak_mb']:.0f}")
        lines.append("| " + " | ".join(cells) + " |")
    if len(found) > 2:
        lines.append("")
        for name in heads[1:]:
            growth = fit_growth([e["nodes"] for e in found], [e[name] for e in found])
            span = f"{growth.low:.2f} to {growth.high:.2f}"
            lines.append(f"{name}: seconds grow with V^{growth.exponent:.2f} ({span})\n")
    return "\n".join(lines)


def draw(found: list[dict[str, Any]], folder: Path) -> None:
    """Seconds against nodes, stage by stage, as PNG and SVG."""
    with picture(folder, "fit_growth", 8.5, 4.5) as figure:
        axes = figure.subplots()
        sizes = [entry["nodes"] for entry in found]
        for name, colour in zip(("whole", *STAGES), PALETTE, strict=False):
            times = [entry[name] for entry in found]
            label = f"{name}, an epoch" if name.endswith("encoder") else name
            if len(found) > 2:
                label += f": $V^{{{fit_growth(sizes, times).exponent:.2f}}}$"
            axes.plot(sizes, times, "o-", color=colour, label=label)
        axes.set(xscale="log", yscale="log", xlabel="nodes", ylabel="seconds of one core")
        axes.set_title("A whole fit in top-k mode")
        figure.legend(loc="outside right center", frameon=False)


def main() -> None:
    """Measure, and write the figures after each size: the next one may take long."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", default="4000,8000,16000,32000,64000,128000,256000")
    parser.add_argument("--cap", type=int, default=32)
    parser.add_argument("--index-past", type=int, default=16000)
    parser.add_argument("--out", type=Path, required=True)
    chosen = parser.parse_args()
    chosen.out.mkdir(parents=True, exist_ok=True)
    found: list[dict[str, Any]] = []
    for size in (int(size) for size in chosen.sizes.split(",")):
        found.append(in_own_process(measure, size, chosen.cap, chosen.index_past))
        print(json.dumps(found[-1]), flush=True)
        text = json.dumps(found, indent=1) + "\n"
        (chosen.out / "fit_growth.json").write_text(text, encoding="utf-8")
        (chosen.out / "fit_growth.md").write_text(table(found), encoding="utf-8")
        draw(found, chosen.out)
    print(table(found))


if __name__ == "__main__":
    main()
