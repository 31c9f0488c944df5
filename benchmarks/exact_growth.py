"""How the seconds of exact mode grow with the graph, from the graph to the learned weights.

    python benchmarks/exact_growth.py --out DIR [--sizes 4000,8000,...] [--peer-up-to 16000]

The random graphs of `xtcl reproduce time`: 2V links, random attributes and labels, half of the
nodes labelled. XGSampler makes relations, thresholds and counts and fits its stumps; Naive XGBoost
gets the same pairs as a table, which takes 9 V^2 bytes and so ends the comparison early. Every fit
runs in a process of its own with one thread, and seconds are those of its core. DIR gets
`exact_growth.json`, `.md`, `.png` and `.svg` after each size.
"""

from __future__ import annotations

import argparse
import json
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
from nearest_rows import in_own_process, most_memory

from xtcl.lab.experiments.training_time import fit_growth, fit_stumps_on_pairs, pairs_of
from xtcl.report.charts import PALETTE, picture

TITLES = {"xgsampler": "XGSampler", "naive-xgboost": "Naive XGBoost"}


def measure(system: str, count: int, answer: Connection) -> None:
    """Fit once, warm; send what it took."""
    torch.set_num_threads(1)
    cpu = torch.device("cpu")
    fit_stumps_on_pairs(system, *pairs_of(200, 0, cpu))
    pairs = pairs_of(count, 0, cpu)
    start = time.process_time()
    fit_stumps_on_pairs(system, *pairs)
    seconds = time.process_time() - start
    peak_mb = most_memory() / 2**20
    answer.send({"system": system, "nodes": count, "seconds": seconds, "peak_mb": peak_mb})


def of_system(found: list[dict[str, Any]], system: str) -> tuple[list[int], list[float]]:
    """Sizes and seconds."""
    own = [entry for entry in found if entry["system"] == system]
    return [entry["nodes"] for entry in own], [entry["seconds"] for entry in own]


def table(found: list[dict[str, Any]]) -> str:
    """A line a fit, in Markdown, and the growth of each system."""
    lines = ["| system | nodes | seconds | peak MB |", "|---|---|---|---|"]
    for entry in found:
        cells = (TITLES[entry["system"]], f"{entry['nodes']:,}", f"{entry['seconds']:.1f}")
        lines.append("| " + " | ".join((*cells, f"{entry['peak_mb']:.0f}")) + " |")
    lines.append("")
    for system, title in TITLES.items():
        sizes, seconds = of_system(found, system)
        if len(sizes) > 2:
            growth = fit_growth(sizes, seconds)
            span = f"{growth.low:.2f} to {growth.high:.2f}"
            lines.append(f"{title}: seconds grow with V^{growth.exponent:.2f} ({span})\n")
    return "\n".join(lines)


def draw(found: list[dict[str, Any]], folder: Path) -> None:
    """Seconds against nodes, as PNG and SVG."""
    with picture(folder, "exact_growth", 8.5, 4.5) as figure:
        axes = figure.subplots()
        for (system, title), colour in zip(TITLES.items(), PALETTE, strict=False):
            sizes, seconds = of_system(found, system)
            if len(sizes) > 2:
                title += f": $V^{{{fit_growth(sizes, seconds).exponent:.2f}}}$"
            axes.plot(sizes, seconds, "o-", color=colour, label=title)
        axes.set(xscale="log", yscale="log", xlabel="nodes", ylabel="seconds of one core")
        axes.set_title("Relations and sampler in exact mode")
        figure.legend(loc="outside right center", frameon=False)


def main() -> None:
    """Measure, and write the figures after each fit: the next one may take long."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", default="4000,8000,16000,32000,64000")
    parser.add_argument("--peer-up-to", type=int, default=16000)
    parser.add_argument("--out", type=Path, required=True)
    chosen = parser.parse_args()
    chosen.out.mkdir(parents=True, exist_ok=True)
    found: list[dict[str, Any]] = []
    for size in (int(size) for size in chosen.sizes.split(",")):
        for system in TITLES if size <= chosen.peer_up_to else ("xgsampler",):
            found.append(in_own_process(measure, system, size))
            print(json.dumps(found[-1]), flush=True)
            text = json.dumps(found, indent=1) + "\n"
            (chosen.out / "exact_growth.json").write_text(text, encoding="utf-8")
            (chosen.out / "exact_growth.md").write_text(table(found), encoding="utf-8")
            draw(found, chosen.out)
    print(table(found))


if __name__ == "__main__":
    main()
