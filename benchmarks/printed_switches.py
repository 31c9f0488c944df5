"""What each switch of "the paper as printed" changes: accuracy of the literal fit for nodes.

    python benchmarks/printed_switches.py --out DIR [--dataset cora] [--seeds 0]

Fits `XTCL(sampler="paper")` with a tenth of the labels, then with one switch of `SamplerConfig` set
to its other value, then with all as printed. DIR gets `printed_switches.json` and `.md`, where the
accuracy is the mean over the splits.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from xtcl.config import SamplerConfig
from xtcl.estimator import XTCL
from xtcl.graph.datasets.load import load_dataset
from xtcl.graph.splits import node_split
from xtcl.tasks import make_task

CHANGES: dict[str, dict[str, Any]] = {
    "SamplerConfig.paper()": {},
    "printed_relations=False": {"printed_relations": False},
    "positive_only=False": {"positive_only": False},
    "self_pairs=True": {"self_pairs": True},
    "above_only=False": {"above_only": False},
    "all as printed": {"positive_only": False, "self_pairs": True, "above_only": False},
}


def accuracy(dataset: str, seed: int, changes: dict[str, Any]) -> float:
    """Test accuracy of one literal fit, in percent."""
    graph = load_dataset(dataset)
    split = node_split(graph, train=0.1, seed=seed)
    recipe = make_task("nodes").recipe("gcn").as_in_paper("gcn")
    recipe = replace(recipe, sampler=replace(SamplerConfig.paper(), **changes))
    model = XTCL(recipe=recipe, random_state=seed, device="cpu").fit(graph, split)
    return 100 * float(model.score(split))


def table(found: Sequence[dict[str, Any]]) -> str:
    """A line a setting, in Markdown."""
    lines = ["| setting | data set | splits | accuracy |", "|---|---|---|---|"]
    for entry in found:
        mean = sum(entry["accuracy"]) / len(entry["accuracy"])
        splits = ", ".join(map(str, entry["seeds"]))
        lines.append(f"| {entry['setting']} | {entry['dataset']} | {splits} | {mean:.2f} |")
    return "\n".join(lines)


def main() -> None:
    """Fit, and write the figures after each setting."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", default="cora")
    parser.add_argument("--seeds", default="0")
    parser.add_argument("--out", type=Path, required=True)
    chosen = parser.parse_args()
    chosen.out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    seeds = [int(seed) for seed in chosen.seeds.split(",")]
    found = []
    for setting, changes in CHANGES.items():
        figures = [accuracy(chosen.dataset, seed, changes) for seed in seeds]
        found.append(
            {"setting": setting, "dataset": chosen.dataset, "seeds": seeds, "accuracy": figures}
        )
        print(json.dumps(found[-1]), flush=True)
        text = json.dumps(found, indent=1) + "\n"
        (chosen.out / "printed_switches.json").write_text(text, encoding="utf-8")
        (chosen.out / "printed_switches.md").write_text(table(found) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
