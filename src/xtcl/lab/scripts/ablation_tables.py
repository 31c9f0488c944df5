"""Draws the tables of the ablation from the files that ablation.py wrote."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from xtcl.lab.experiments.comparison import TABLE_DATASETS
from xtcl.lab.experiments.records import RecordFile
from xtcl.lab.scripts.ablation_rows import DEFAULT, ROWS
from xtcl.lab.scripts.accuracy_tables import (
    PURITY_TITLES,
    TITLES,
    TableRecord,
    difference_cell,
    paired,
)
from xtcl.report.charts import DASH, spread_labels, table

INTRODUCTION = f"""# Ablation

Each row is the default recipe of xtcl-gcn with one thing changed. Mean ± standard error over the
splits from seed 1000, which serve exploration; differences to the default are paired by split, with
the standard error of their mean. Purity: the share of right positives on the test side, counted
after the fact. {DASH}: not run. Drawn by `xtcl.lab.scripts.ablation --table` from the files beside
this one."""


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
                [row.title, *figures(found[row.name], found[DEFAULT.name], shares[row.name])]
                for row in rows
            ]
            head = ["", "mean", "minus default", "splits", "seconds", "purity"]
            explained = f"{TITLES[task]}. Purity: {PURITY_TITLES[task]}."
            parts += [f"## {dataset}, {task}", explained, table(head, lines)]
    return "\n\n".join(parts) + "\n"


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
