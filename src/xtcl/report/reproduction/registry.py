"""How each experiment is drawn."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from xtcl.experiments.reproduction.experiment import Experiment, Record
from xtcl.files import atomic_path
from xtcl.report.reproduction.class_count import draw_class_count
from xtcl.report.reproduction.comparison import draw_comparison
from xtcl.report.reproduction.importance import draw_importance
from xtcl.report.reproduction.learning_curve import draw_learning_curve
from xtcl.report.reproduction.perturbed_labels import draw_perturbed_labels
from xtcl.report.reproduction.statistics import draw_statistics
from xtcl.report.reproduction.training_time import draw_training_time

Draw = Callable[[Any, Sequence[Record], Path], str]
"""Writes pictures into a folder, and gives the page."""

DRAWERS: dict[str, Draw] = {
    "table-nodes": draw_comparison,
    "table-links": draw_comparison,
    "datasets": draw_statistics,
    "learning-curve": draw_learning_curve,
    "perturbation": draw_perturbed_labels,
    "importance": draw_importance,
    "time": draw_training_time,
    "classes": draw_class_count,
}


def draw_experiment(experiment: Experiment, records: Sequence[Record], folder: Path) -> Path:
    """Write NAME.json with all records, the pictures, and NAME.md; returns the page's path."""
    folder.mkdir(parents=True, exist_ok=True)
    with atomic_path(folder / f"{experiment.name}.json") as temporary:
        records_as_text = json.dumps([asdict(record) for record in records], indent=1)
        temporary.write_text(records_as_text + "\n")
    page = DRAWERS[experiment.name](experiment, records, folder)
    path = folder / f"{experiment.name}.md"
    with atomic_path(path) as temporary:
        temporary.write_text(page, encoding="utf-8")
    return path
