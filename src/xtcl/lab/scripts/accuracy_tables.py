"""Draws results/accuracy/tables.md from the runs of `xtcl reproduce` and what purity.py wrote.

    PYTHONPATH=src python -m xtcl.lab.scripts.accuracy_tables [--runs results/reproduction]
        [--folder results/accuracy]

The runs are those of `xtcl reproduce table-nodes --out results/reproduction` and `table-links`; a
cell without any is a dash.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from xtcl.files import atomic_path
from xtcl.lab.experiments.comparison import PAPER_FIGURES, TABLE_DATASETS
from xtcl.lab.experiments.records import RecordFile
from xtcl.lab.scripts.study import SPLITS, TABLE_METHODS
from xtcl.model_selection.evaluation import standard_error
from xtcl.report.charts import DASH, spread_labels, table
from xtcl.tasks import TASKS

TableRecord = dict[str, Any]
Results = dict[tuple[str, str, str], TableRecord]
"""Runs, seeds and seconds by data set, task and method."""

TITLES = {
    "nodes": "Node classification, accuracy in percent: 10 % of the labels train, 90 % test",
    "links": "Link prediction, AUC in percent: 60 % of the links train, 40 % test",
}
PURITY_TITLES = {
    "nodes": "positives of test nodes that share their class",
    "links": "candidate positives that are test links",
}
PURITY_ROWS = {
    "nodes": {
        "mostly_right": "test nodes most of whose positives share their class",
        "accuracy_there": "accuracy of xtcl-gcn there",
        "accuracy_elsewhere": "accuracy of xtcl-gcn elsewhere",
    },
    "links": {},
}
COMPARED = (("xtcl-gcn", "propagation"), ("xtcl-gcn", "gcn"), ("xtcl-gat", "gat"))
BELOW = "▼"


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the folder, write its tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=Path, default=Path("results/reproduction"))
    parser.add_argument("--folder", type=Path, default=Path("results/accuracy"))
    chosen = parser.parse_args(arguments)
    with atomic_path(chosen.folder / "tables.md") as temporary:
        temporary.write_text(accuracy_page(read_results(chosen.runs), read_purity(chosen.folder)))


def read_results(folder: Path) -> Results:
    """The runs of the protocol that are in the folder."""
    runs = {task: read_runs(folder / f"table-{task}") for task in TASKS}
    cells = {
        (dataset, task, method): cell_of(runs[task], dataset, method)
        for dataset in TABLE_DATASETS
        for task in TASKS
        for method in TABLE_METHODS
    }
    return {place: cell for place, cell in cells.items() if cell is not None}


def read_runs(folder: Path) -> TableRecord:
    """The records of `xtcl reproduce` in its folder, by their key."""
    return RecordFile(folder / f"{folder.name}.jsonl", old=folder / "runs").read()


def cell_of(runs: TableRecord, dataset: str, method: str) -> TableRecord | None:
    """The runs of one method on one data set, as many as the protocol asks for."""
    prefix = f"{dataset}-{method}-"
    numbers = [key.removeprefix(prefix) for key in runs if key.startswith(prefix)]
    seeds = sorted(int(number) for number in numbers if number.isdigit())[: SPLITS[dataset]]
    if not seeds:
        return None
    records = [runs[f"{prefix}{seed}"] for seed in seeds]
    figures = [record["found"]["figure"] for record in records]
    return {
        "dataset": dataset,
        "mean": float(np.mean(figures)),
        "stderr": standard_error(figures),
        "runs": figures,
        "seeds": seeds,
        # Seconds of another machine than the first do not compare.
        "seconds": [
            record["found"]["seconds"]
            for record in records
            if record["hardware"] == records[0]["hardware"]
        ],
        "hardware": records[0]["hardware"],
    }


def read_purity(folder: Path) -> TableRecord:
    """What purity.py wrote, by task and data set."""
    purity: TableRecord = {}
    for key, record in RecordFile(folder / "purity.jsonl").read().items():
        dataset, task = key.rsplit("-", 1)
        purity.setdefault(task, {})[dataset] = record
    return purity


def accuracy_page(results: Results, purity: TableRecord) -> str:
    """All tables as Markdown."""
    first = min((seed for run in results.values() for seed in run["seeds"]), default=0)
    parts = [
        "# Accuracy\n\n"
        f"Mean ± standard error over the splits from seed {first}: "
        + ", ".join(f"{splits} on {dataset}" for dataset, splits in SPLITS.items())
        + f", or as many as said. {DASH}: not run. {BELOW}: below the paper's figure.\n"
        "Drawn by `xtcl.lab.scripts.accuracy_tables` from the runs of `xtcl reproduce`."
    ]
    for task in TASKS:
        parts += [
            f"## {TITLES[task]}",
            figures_table(task, results, purity.get(task, {})),
            "Differences, paired by split:",
            differences_table(task, results),
        ]
    parts += ["## Seconds a split, from training data to answers", seconds_tables(results)]
    return "\n\n".join(parts) + "\n"


def figures_table(task: str, results: Results, purity: dict[str, TableRecord]) -> str:
    """Ours between the published figures."""

    def ours(method: str) -> list[str]:
        found = [results.get((dataset, task, method)) for dataset in TABLE_DATASETS]
        paper = PAPER[task].get(method, {})
        return [
            method,
            *(figure(run, paper.get(d)) for d, run in zip(TABLE_DATASETS, found, strict=True)),
        ]

    def afterwards(title: str, runs: str) -> list[str]:
        shares = [purity.get(dataset, {}).get(runs) for dataset in TABLE_DATASETS]
        return [title, *(f"{np.mean(share):.1f}" if share else DASH for share in shares)]

    return table(
        ["", *TABLE_DATASETS],
        [
            published("the paper's XTCL(GCN)", PAPER[task]["xtcl-gcn"]),
            ours("xtcl-gcn"),
            published("the paper's XTCL(GAT)", PAPER[task]["xtcl-gat"]),
            ours("xtcl-gat"),
            *(ours(method) for method in TABLE_METHODS if method not in PAPER[task]),
            published("best other method in the paper's table", BEST_OTHER[task]),
            published(f"best published {BEST_PUBLISHED_PROTOCOL[task]}", BEST_PUBLISHED[task]),
            afterwards(f"purity (three splits): {PURITY_TITLES[task]}", "runs"),
            *(afterwards(title, runs) for runs, title in PURITY_ROWS[task].items()),
        ],
    )


def published(title: str, figures: Figures) -> list[str]:
    """A row of figures that others measured."""
    return [title, *(f"{figures[dataset]:.2f}" for dataset in TABLE_DATASETS)]


def figure(run: TableRecord | None, paper: float | None) -> str:
    """A cell of ours, with a mark where it is below the paper's as printed."""
    if run is None:
        return DASH
    count = len(run["runs"])
    text = spread_labels(run["mean"], run["stderr"])
    if count < SPLITS[run["dataset"]]:
        text += f" ({count} split{'s' if count > 1 else ''})"
    below = paper is not None and round(run["mean"], 2) < paper
    return f"{text} {BELOW}" if below else text


def differences_table(task: str, results: Results) -> str:
    """What one method has over another on the same splits; the mean only of all data sets."""
    rows = []
    for one, other in COMPARED:
        found = [
            paired(results.get((dataset, task, one)), results.get((dataset, task, other)))
            for dataset in TABLE_DATASETS
        ]
        means = [float(difference.mean()) for difference in found if len(difference)]
        mean = f"{np.mean(means):+.2f}" if len(means) == len(TABLE_DATASETS) else DASH
        rows.append([f"{one} minus {other}", *(difference_cell(each) for each in found), mean])
    return table(["", *TABLE_DATASETS, "mean"], rows)


def paired(one: TableRecord | None, other: TableRecord | None) -> np.ndarray:
    """Differences on the splits that both have."""
    if one is None or other is None:
        return np.empty(0)
    first, second = (dict(zip(run["seeds"], run["runs"], strict=True)) for run in (one, other))
    return np.array([first[seed] - second[seed] for seed in sorted(first.keys() & second.keys())])


def difference_cell(differences: np.ndarray) -> str:
    """Mean and standard error, with its sign."""
    if not len(differences):
        return DASH
    return spread_labels(float(differences.mean()), standard_error(differences), sign="+")


def seconds_tables(results: Results) -> str:
    """Mean seconds by task, and the machines that took them."""
    machines: list[TableRecord] = []
    for run in results.values():
        if run["hardware"] not in machines:
            machines.append(run["hardware"])

    def seconds(run: TableRecord | None) -> str:
        if run is None:
            return DASH
        machine = machines.index(run["hardware"]) + 1
        return f"{np.mean(run['seconds']):.1f} [{machine}]"

    tables = [
        table(
            [task, *TABLE_DATASETS],
            [
                [method, *(seconds(results.get((name, task, method))) for name in TABLE_DATASETS)]
                for method in TABLE_METHODS
            ],
        )
        for task in TASKS
    ]
    lines = [f"- [{n}] {describe_machine(machine)}" for n, machine in enumerate(machines, 1)]
    legend = "\n".join(lines)
    return "\n\n".join([*tables, legend] if legend else tables)


def describe_machine(machine: TableRecord) -> str:
    """A machine in words."""
    gpu = "no GPU" if machine["gpu"] == "none" else machine["gpu"]
    return f"{gpu}; {machine['cpu']}, {machine['cpus']} CPUs, {machine['threads']} thread(s)"


if __name__ == "__main__":
    main()


Figures = dict[str, float]
"""By data set."""


def _row(*figures: float) -> Figures:
    return dict(zip(TABLE_DATASETS, figures, strict=True))


PAPER: dict[str, dict[str, Figures]] = {
    task: {method: _row(*rows[method]) for method in ("xtcl-gcn", "xtcl-gat")}
    for task, rows in PAPER_FIGURES.items()
}
"""The paper's own XTCL, by task and method."""

BEST_OTHER: dict[str, Figures] = {
    "nodes": _row(84.58, 73.53, 86.65, 88.16, 93.00),
    "links": _row(93.74, 96.89, 95.81, 98.00, 98.21),
}
"""The best other method in the paper's table."""

BEST_PUBLISHED: dict[str, Figures] = {
    "nodes": _row(86.11, 74.55, 87.59, 91.02, 95.32),
    "links": _row(96.66, 98.00, 99.06, 98.82, 99.11),
}

BEST_PUBLISHED_PROTOCOL = {
    "nodes": "at 10 % labels; some use 10 % more for validation",
    "links": "with 85 % of the links for training",
}
