"""The O(E) mode of Section 3.3 of the paper: seconds, peak memory, growth, and accuracy.

    python benchmarks/linked_growth.py --out DIR [--links 10000,30000,...] [--cap 32] [--nine]
    python benchmarks/linked_growth.py --out DIR --datasets cora,citeseer
        [--modes linked,top-k,exact,hop1,linked-relations] [--splits 5] [--device cuda]
    python benchmarks/linked_growth.py --out DIR --datasets cora,citeseer --sampling

In this mode relations of attributes and labels compare linked nodes only (`relations="linked"`),
the others search within reach of a node (`cap`), and positives are chosen among linked nodes
(`hops=1`). No part is computed for all pairs. `--nine` adds PageRank, which the mode leaves out.

Without `--datasets`: random graphs with twice as many links as nodes, as in the paper's figure of
training time, 128 attributes in clusters, 8 classes and labels for a tenth of the nodes. The stages
are the relations, one column for each, the rest of learning the weights (`sampler`, five folds),
and the rest of finding the 20 best of every node (`positives`). Every size runs in a process of its
own; memory is the peak above what the process held when the graph was there; seconds are those of
one core. DIR gets `linked_growth.json` and `linked_growth.md`.

With `--datasets`: a fit of each data set in each mode, for nodes, with a tenth of the labels, on so
many splits from seed 0 (one, without `--splits`): accuracy, seconds of one core (of the clock with
`--device cuda`), and the peak above what the process held with the graph. `hop1` has the paper's
relations with the cap and chooses positives among linked nodes; `linked-relations` has relations of
linked pairs and chooses positives among all. DIR gets `linked_accuracy.jsonl`, a record of each
fit, and at the end `linked_accuracy.md`; fits that are there are kept. With several splits the page
has mean and standard error of the accuracy alone. With `--sampling` only weights and positives of
split 0 are computed, on a CPU, in place of the whole fit: `linked_sampling`.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from nearest_rows import in_own_process, memory_held, most_memory, random_view

from xtcl.config import FitConfig, SamplerConfig
from xtcl.estimator import XTCL
from xtcl.graph.datasets.load import load_dataset
from xtcl.graph.splits import node_split
from xtcl.lab.experiments.records import RecordFile
from xtcl.lab.experiments.training_time import fit_growth
from xtcl.relations.pagerank import PageRank
from xtcl.relations.registry import resolve_relations
from xtcl.relations.row_source import TopKSource
from xtcl.relations.sparse import SparseRows
from xtcl.sampling.xgsampler import XGSampler
from xtcl.tasks import make_task
from xtcl.tasks.fit_options import FitOptions
from xtcl.tasks.sampled_positives import sample_positives
from xtcl.tasks.training_data import training_data

POSITIVES = 20
LINKS_A_NODE = 2


class Mode(NamedTuple):
    """What a fit looks at: relations, whether they are capped, and how far positives may be."""

    relations: str = "paper"
    capped: bool = True
    hops: int | None = None


MODES = {
    "linked": Mode("linked", hops=1),
    "top-k": Mode(),
    "exact": Mode(capped=False),
    "hop1": Mode(hops=1),
    "linked-relations": Mode("linked"),
}


def measure(links: int, cap: int, nine: bool, answer: Connection) -> None:
    """Fit the sampler, find positives among linked nodes; send what each part took."""
    torch.set_num_threads(1)
    spent = clock_relations()
    count = links // LINKS_A_NODE
    view = random_view(count, links_a_node=LINKS_A_NODE)
    before = memory_held()
    start = time.process_time()
    relations = [*resolve_relations("linked"), *([PageRank()] if nine else [])]
    sampler = XGSampler(relations, SamplerConfig(cap=cap))
    sampler.fit_folds(view, make_task("nodes").folds(view, 5, np.random.default_rng(0)))
    learned, of_learning = time.process_time(), sum(spent.values())
    sampler.positives(POSITIVES, hops=1)
    end = time.process_time()
    answer.send(
        {
            "links": links,
            "nodes": count,
            "seconds": end - start,
            **{relation.name: spent[relation.name] for relation in relations},
            "sampler": learned - start - of_learning,
            "positives": end - learned - (sum(spent.values()) - of_learning),
            "peak_mb": (most_memory() - before) / 2**20,
        }
    )


def clock_relations() -> defaultdict[str, float]:
    """Gets, by relation, the seconds of its searches from now on, with their preparation."""
    spent: defaultdict[str, float] = defaultdict(float)
    rows = TopKSource.rows

    def clocked(self: TopKSource, nodes: torch.Tensor) -> SparseRows:
        start = time.process_time()
        found = rows(self, nodes)
        spent[self.relation.name] += time.process_time() - start
        return found

    TopKSource.rows = clocked  # type: ignore[method-assign]
    return spent


def growth_table(found: Sequence[dict[str, Any]]) -> str:
    """A line a size, in Markdown, and below it the exponent of every column."""
    columns = [name for name in found[0] if name not in ("links", "nodes")]
    lines = [
        "| links | nodes | " + " | ".join(columns).replace("peak_mb", "peak MB") + " |",
        "|---|---|" + "---|" * len(columns),
    ]
    for entry in found:
        seconds = (f"{entry[name]:.3g}" for name in columns[:-1])
        figures = " | ".join([*seconds, f"{entry['peak_mb']:.0f}"])
        lines.append(f"| {entry['links']:,} | {entry['nodes']:,} | {figures} |")
    if len(found) > 2:
        sizes = [entry["links"] for entry in found]
        exponents = (
            fit_growth(sizes, [max(entry[name], 1e-3) for entry in found]).exponent
            for name in columns
        )
        lines.append("| exponent |  | " + " | ".join(f"{e:.2f}" for e in exponents) + " |")
    return "\n".join(lines)


def fit(dataset: str, mode: str, cap: int, seed: int, device: str, answer: Connection) -> None:
    """Fit and score one split of a data set in one mode; send accuracy, seconds and memory."""
    torch.set_num_threads(1)
    clock = time.process_time if device == "cpu" else time.perf_counter
    graph = load_dataset(dataset)
    split = node_split(graph, train=0.1, seed=seed)
    recipe, relations = settings(mode, cap)
    before = memory_held()
    start = clock()
    model = XTCL(device=device, random_state=seed, recipe=recipe, relations=relations)
    model.fit(graph, split)
    seconds = clock() - start
    answer.send(
        {
            "dataset": dataset,
            "mode": mode,
            "seed": seed,
            "accuracy": 100 * model.score(split),
            "seconds": seconds,
            "peak_mb": (most_memory() - before) / 2**20,
        }
    )


def settings(mode: str, cap: int) -> tuple[FitConfig, str]:
    """The recipe and the relations of a mode."""
    chosen, recipe = MODES[mode], make_task("nodes").recipe("gcn")
    if chosen.capped:
        recipe = replace(recipe, sampler=replace(recipe.sampler, cap=cap))
    return replace(recipe, hops=chosen.hops), chosen.relations


def sample(dataset: str, mode: str, cap: int, answer: Connection) -> None:
    """Learn the weights and find the positives of one data set; send seconds and memory."""
    torch.set_num_threads(1)
    graph = load_dataset(dataset)
    side = training_data(graph, node_split(graph, train=0.1, seed=0))
    recipe, relations = settings(mode, cap)
    before = memory_held()
    start = time.process_time()
    found = sample_positives(
        side.graph, make_task("nodes"), recipe, FitOptions(relations=relations)
    )
    answer.send(
        {
            "dataset": dataset,
            "mode": mode,
            "positives_a_node": float((found.positives >= 0).sum(axis=1).mean()),
            "seconds": time.process_time() - start,
            "peak_mb": (most_memory() - before) / 2**20,
        }
    )


def sampling_table(found: Sequence[dict[str, Any]]) -> str:
    """A line a data set and mode, in Markdown."""
    lines = ["| data set | mode | positives a node | seconds | peak MB |", "|---|---|---|---|---|"]
    for entry in found:
        figures = [f"{entry['positives_a_node']:.1f}", f"{entry['seconds']:.1f}"]
        cells = [entry["dataset"], entry["mode"], *figures, f"{entry['peak_mb']:.0f}"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def accuracy_table(found: Sequence[dict[str, Any]]) -> str:
    """A line a fit, in Markdown; with several splits a line a mode: means and standard errors."""
    if any(entry.get("seed", 0) > 0 for entry in found):
        return splits_table(found)
    lines = ["| data set | mode | accuracy | seconds | peak MB |", "|---|---|---|---|---|"]
    for entry in found:
        figures = f"{entry['accuracy']:.2f} | {entry['seconds']:.0f} | {entry['peak_mb']:.0f}"
        lines.append(f"| {entry['dataset']} | {entry['mode']} | {figures} |")
    return "\n".join(lines)


def splits_table(found: Sequence[dict[str, Any]]) -> str:
    """Mean and standard error of the accuracy over splits: a line a mode, a column a data set."""
    runs: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    for entry in found:
        runs[entry["mode"], entry["dataset"]].append(entry["accuracy"])
    datasets = list(dict.fromkeys(entry["dataset"] for entry in found))
    lines = ["| mode | " + " | ".join(datasets) + " |", "|---" * (len(datasets) + 1) + "|"]
    for mode in dict.fromkeys(entry["mode"] for entry in found):
        cells = [mean_and_error(runs[mode, dataset]) for dataset in datasets]
        lines.append(f"| {mode} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def mean_and_error(runs: Sequence[float]) -> str:
    """Such as 85.10 ± 0.98; without an error for one run, empty for none."""
    if len(runs) < 2:
        return "".join(f"{run:.2f}" for run in runs)
    return f"{np.mean(runs):.2f} ± {np.std(runs, ddof=1) / len(runs) ** 0.5:.2f}"


def measure_growth(chosen: argparse.Namespace) -> None:
    """Measure every size; write the figures so far after each, for the next one may take long."""
    found: list[dict[str, Any]] = []
    for links in (int(size) for size in chosen.links.split(",")):
        found.append(in_own_process(measure, links, chosen.cap, chosen.nine))
        print(json.dumps(found[-1]), flush=True)
        text = json.dumps(found, indent=1) + "\n"
        (chosen.out / "linked_growth.json").write_text(text, encoding="utf-8")
        text = growth_table(found) + "\n"
        (chosen.out / "linked_growth.md").write_text(text, encoding="utf-8")


def measure_datasets(chosen: argparse.Namespace) -> None:
    """Fit every data set, mode and split that has no record yet."""
    name, table = "linked_accuracy", accuracy_table
    if chosen.sampling:
        name, table = "linked_sampling", sampling_table
    records = RecordFile(chosen.out / f"{name}.jsonl")
    datasets, modes = chosen.datasets.split(","), chosen.modes.split(",")
    for dataset, mode, seed in product(datasets, modes, range(chosen.splits)):
        key = f"{dataset}-{mode}-{seed}"
        if key in records.read():
            continue
        if chosen.sampling:
            found = in_own_process(sample, dataset, mode, chosen.cap)
        else:
            found = in_own_process(fit, dataset, mode, chosen.cap, seed, chosen.device)
        print(json.dumps(found), flush=True)
        records.append(key, found)
    records.fold()
    entries = in_order(list(records.read().values()), datasets, modes)
    (chosen.out / f"{name}.md").write_text(table(entries) + "\n", encoding="utf-8")


def in_order(
    found: Sequence[dict[str, Any]], datasets: Sequence[str], modes: Sequence[str]
) -> list[dict[str, Any]]:
    """By data set, mode and split, those that are asked for first: records are sorted by key."""
    sets = list(dict.fromkeys([*datasets, *(entry["dataset"] for entry in found)]))
    ways = list(dict.fromkeys([*modes, *(entry["mode"] for entry in found)]))

    def place(entry: dict[str, Any]) -> tuple[int, int, int]:
        return sets.index(entry["dataset"]), ways.index(entry["mode"]), entry.get("seed", 0)

    return sorted(found, key=place)


def main() -> None:
    """Measure growth, or accuracy with `--datasets`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--links", default="10000,30000,100000,300000,1000000")
    parser.add_argument("--cap", type=int, default=32)
    parser.add_argument("--nine", action="store_true", help="with PageRank")
    parser.add_argument("--datasets", help="fit these data sets, such as cora,citeseer")
    parser.add_argument("--modes", default="linked,top-k,exact", help=f"of {', '.join(MODES)}")
    parser.add_argument("--splits", type=int, default=1, help="of each data set")
    parser.add_argument("--device", default="cpu", help="of the fits, such as cuda")
    parser.add_argument("--sampling", action="store_true", help="without training and head")
    parser.add_argument("--out", type=Path, required=True)
    chosen = parser.parse_args()
    chosen.out.mkdir(parents=True, exist_ok=True)
    if chosen.sampling and (chosen.splits, chosen.device) != (1, "cpu"):
        parser.error("--sampling is of split 0, on a CPU")
    if chosen.datasets is None:
        measure_growth(chosen)
    else:
        measure_datasets(chosen)


if __name__ == "__main__":
    main()
