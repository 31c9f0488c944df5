"""Experiments by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from xtcl.errors import UsageError, known_names
from xtcl.files import atomic_path
from xtcl.lab.experiments.any_graph import AnyGraph, draw_any_graph
from xtcl.lab.experiments.class_count import ClassCount, draw_class_count
from xtcl.lab.experiments.comparison import LinkTable, NodeTable, draw_comparison
from xtcl.lab.experiments.experiment import Experiment, Record
from xtcl.lab.experiments.hard_graphs import HardGraphs, draw_hard_graphs
from xtcl.lab.experiments.importance import Importance, draw_importance
from xtcl.lab.experiments.learning_curve import LearningCurve, draw_learning_curve
from xtcl.lab.experiments.perturbation import PerturbedLabels, draw_perturbed_labels
from xtcl.lab.experiments.statistics import DatasetStatistics, draw_statistics
from xtcl.lab.experiments.training_time import TrainingTime, draw_training_time

EXPERIMENTS: dict[str, type[Experiment]] = {
    kind.name: kind
    for kind in (
        NodeTable,
        LinkTable,
        DatasetStatistics,
        LearningCurve,
        PerturbedLabels,
        Importance,
        TrainingTime,
        ClassCount,
        AnyGraph,
        HardGraphs,
    )
}


def make_experiment(name: str) -> Experiment:
    """The experiment called `name`. The error for an unknown one suggests the closest name."""
    kind = EXPERIMENTS.get(name.lower())
    if kind is None:
        raise UsageError(f"There is no experiment '{name}'.{known_names(name, EXPERIMENTS)}")
    return kind()


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
    "any-graph": draw_any_graph,
    "hard-graphs": draw_hard_graphs,
}


def draw_experiment(experiment: Experiment, records: Sequence[Record], folder: Path) -> Path:
    """Write the pictures and NAME.md, the page; returns its path."""
    folder.mkdir(parents=True, exist_ok=True)
    page = DRAWERS[experiment.name](experiment, records, folder)
    path = folder / f"{experiment.name}.md"
    with atomic_path(path) as temporary:
        temporary.write_text(page, encoding="utf-8")
    return path
