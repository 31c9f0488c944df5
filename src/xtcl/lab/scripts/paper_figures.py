"""Published figures in percent: node classification accuracy and link prediction AUC."""

from __future__ import annotations

from xtcl.lab.experiments.comparison import PAPER_FIGURES, TABLE_DATASETS

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
