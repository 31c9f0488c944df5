"""What each part of the recipe gives: the default of xtcl-gcn with one thing changed at a time.

    PYTHONPATH=src python -m xtcl.lab.scripts.ablation [--datasets cora,...] [--tasks nodes,links]
        [--only ROW,...] [--splits 5] [--device auto] [--data DIR] [--out results/ablation]
        [--table]

Splits are those of exploration, from seed 1000: no choice is made on the reported ones. Writes
ablation.jsonl with a record D-T-R for data set, task and row, as `xtcl evaluate --json` prints it;
purity.jsonl has the share of right positives on the test side, by seed. Finished splits are kept
and never run again; splits of another recipe, other versions or other hardware are refused. With
--table it runs nothing and draws tables.md from what is there.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch

from xtcl.baselines.method import Method
from xtcl.config import FIXED_RULES, FitConfig
from xtcl.device import pick_device
from xtcl.errors import UsageError, XTCLError
from xtcl.files import atomic_path
from xtcl.graph.datasets.load import load_dataset
from xtcl.graph.graph import Graph
from xtcl.graph.splits import LinkSplit
from xtcl.lab.experiments.comparison import TABLE_DATASETS
from xtcl.lab.experiments.provenance import evaluate_into
from xtcl.lab.experiments.records import RecordFile
from xtcl.lab.scripts.ablation_rows import DEFAULT, ENCODER, ROWS, Row, literal
from xtcl.lab.scripts.accuracy_tables import (
    PURITY_TITLES,
    TITLES,
    TableRecord,
    difference_cell,
    paired,
)
from xtcl.lab.scripts.purity import share_of_same_class, share_of_test_links
from xtcl.lab.scripts.study import (
    FIRST_EXPLORATION_SEED,
    add_split,
    current_conditions,
    names,
    print_split,
    run_options,
)
from xtcl.model_selection.evaluation import make_split
from xtcl.progress import Progress
from xtcl.report.charts import DASH, spread_labels, table
from xtcl.tasks import TASKS, make_task
from xtcl.tasks.fit_options import FitOptions
from xtcl.tasks.results import Predictions
from xtcl.tasks.training_data import TrainingData

ROW_NAMES = tuple(dict.fromkeys(row.name for rows in ROWS.values() for row in rows))


class RowMethod(Method):
    """A row as a method; keeps the positives of its latest fit."""

    title: ClassVar[str] = "a row of the ablation"
    tasks: ClassVar[frozenset[str]] = frozenset(TASKS)

    def __init__(self, row: Row) -> None:
        self.row = row
        self.positives = np.empty((0, 0), dtype=np.int64)

    def recipe(self, task: str) -> FitConfig:
        """The changed recipe."""
        return self.row.change(make_task(task).named_recipe(FIXED_RULES, ENCODER))

    def fit(
        self,
        side: TrainingData,
        task: str,
        *,
        seed: int,
        device: torch.device,
        progress: Progress,
    ) -> Predictions:
        """Fit embeddings and head."""
        options = FitOptions(encoder=ENCODER, seed=seed, device=device, progress=progress)
        fitted = self.row.fit(side, make_task(task), self.recipe(task), options)
        self.positives = fitted.fitted.positives
        return fitted.answer


def method_of(row: Row) -> RowMethod:
    """The row as a method of its name."""

    class Named(RowMethod):
        name: ClassVar[str] = row.name

    return Named(row)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is missing, or draw the table; 1 if anything could not be run."""
    parser = run_options(__doc__)
    parser.add_argument("--only", type=names(ROW_NAMES), default=ROW_NAMES)
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("results/ablation"))
    parser.add_argument("--table", action="store_true")
    chosen = parser.parse_args(arguments)
    chosen.out.mkdir(parents=True, exist_ok=True)
    if chosen.table:
        with atomic_path(chosen.out / "tables.md") as temporary:
            temporary.write_text(ablation_page(chosen.out))
        return 0
    device = pick_device(chosen.device)
    failures = 0
    for dataset in chosen.datasets:
        graph = load_dataset(dataset, chosen.data)
        for task in chosen.tasks:
            for row in ROWS[task]:
                if row.name not in chosen.only:
                    continue
                try:
                    run(chosen.out, graph, task, row, chosen.splits, device)
                except UsageError as refused:  # the other rows can still be filled
                    print(refused, file=sys.stderr)
                    failures += 1
    return int(failures > 0)


def run(folder: Path, graph: Graph, task: str, row: Row, splits: int, device: torch.device) -> None:
    """Bring one row up to `splits` splits."""
    cell = f"{graph.name}-{task}-{row.name}"
    file, purity = RecordFile(folder / "ablation.jsonl"), RecordFile(folder / "purity.jsonl")
    method = method_of(row)

    def on_split(seed: int, figure: float, seconds: float) -> None:
        right = share_of_right(method.positives, graph, task, seed)
        add_split(purity, cell, seed, round(100 * right, 2))
        print_split(cell, seed, figure, seconds)

    recipe = method.recipe(task)
    evaluate_into(
        file,
        cell,
        graph,
        task,
        method,
        splits=splits,
        seed=FIRST_EXPLORATION_SEED,
        device=device,
        conditions={
            "config": asdict(recipe),
            "fit": row.fit.__name__,
            **current_conditions(device),
        },
        on_split=on_split,
    )


def share_of_right(positives: np.ndarray, graph: Graph, task: str, seed: int) -> float:
    """How many of the positives are right on the test side; looked at after the fit."""
    split = make_split(graph, task, seed)
    if isinstance(split, LinkSplit):
        return share_of_test_links(positives, split)
    return share_of_same_class(positives, split, graph)


INTRODUCTION = f"""# Ablation

Each row is the default recipe of xtcl-gcn with one thing changed. Mean ± standard error over the
splits from seed 1000, which serve exploration; differences to the default are paired by split, with
the standard error of their mean. Purity: the share of right positives on the test side, counted
after the fact. {DASH}: not run. Drawn by `xtcl.lab.scripts.ablation --table` from the files beside
this one.

\\* An older reading of the printed text: the attribute label distribution is made of the
similarities that reach a threshold, where the paper prints Normalize(S Y) with all of S. The method
as it is read today is `xtcl-paper`, with figures on the reported splits in docs/reproduction.md."""

OLDER_READING = " \\*"
"""Behind the title of a row that was run when the printed text was read in another way."""


def ablation_page(folder: Path) -> str:
    """All tables as Markdown."""
    parts = [INTRODUCTION]
    runs = RecordFile(folder / "ablation.jsonl").read()
    purity = RecordFile(folder / "purity.jsonl").read()
    for task, rows in ROWS.items():
        for dataset in TABLE_DATASETS:
            cells = {row.name: f"{dataset}-{task}-{row.name}" for row in rows}
            found = {name: runs.get(cell, {}) for name, cell in cells.items()}
            if not any(found.values()):
                continue
            shares = {name: purity.get(cell, {}) for name, cell in cells.items()}
            lines = [
                [
                    row_title(row, found[row.name]),
                    *figures(found[row.name], found[DEFAULT.name], shares[row.name]),
                ]
                for row in rows
            ]
            head = ["", "mean", "minus default", "splits", "seconds", "purity"]
            explained = f"{TITLES[task]}. Purity: {PURITY_TITLES[task]}."
            parts += [f"## {dataset}, {task}", explained, table(head, lines)]
    return "\n\n".join(parts) + "\n"


def row_title(row: Row, run: TableRecord) -> str:
    """The title of a row, marked where its run is of an older reading of the paper."""
    settings = run.get("config", {}).get("sampler", {})
    older = row.change is literal and bool(settings) and not settings.get("printed_relations")
    return row.title + OLDER_READING if older else row.title


def figures(run: TableRecord, default: TableRecord, shares: TableRecord) -> list[str]:
    """Mean, difference to the default, splits, seconds and purity of a row."""
    if not run:
        return [DASH] * 5
    count = len(run["runs"])
    is_default = run["method"] == DEFAULT.name
    return [
        spread_labels(run["mean"], run["stderr"] if count > 1 else None),
        DASH if is_default or not default else difference_cell(paired(run, default)),
        str(count),
        f"{np.mean(run['seconds']):.1f}",
        f"{np.mean(list(shares.values())):.1f}" if shares else DASH,
    ]


if __name__ == "__main__":
    try:
        sys.exit(main())
    except XTCLError as error:
        sys.exit(str(error))
