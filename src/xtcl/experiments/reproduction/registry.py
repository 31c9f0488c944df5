"""Experiments by name."""

from __future__ import annotations

from xtcl.errors import UsageError, known_names
from xtcl.experiments.reproduction.class_count import ClassCount
from xtcl.experiments.reproduction.comparison import LinkTable, NodeTable
from xtcl.experiments.reproduction.experiment import Experiment
from xtcl.experiments.reproduction.importance import Importance
from xtcl.experiments.reproduction.learning_curve import LearningCurve
from xtcl.experiments.reproduction.perturbed_labels import PerturbedLabels
from xtcl.experiments.reproduction.statistics import DatasetStatistics
from xtcl.experiments.reproduction.training_time import TrainingTime

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
    )
}


def make_experiment(name: str) -> Experiment:
    """The experiment called `name`; an unknown name meets the closest known one."""
    kind = EXPERIMENTS.get(name.lower())
    if kind is None:
        raise UsageError(f"There is no experiment '{name}'.{known_names(name, EXPERIMENTS)}")
    return kind()
