"""Tasks: their folds and recipes, the heads that predict from an embedding, and metrics."""

from __future__ import annotations

from typing import Any

from xtcl import renamed
from xtcl.errors import UsageError
from xtcl.tasks.custom import CustomTask
from xtcl.tasks.link_prediction import LinkPrediction
from xtcl.tasks.logistic import LogisticHead, fit_logistic
from xtcl.tasks.node_classification import NodeClassification
from xtcl.tasks.results import LinkScores, NodePredictions, Predictions
from xtcl.tasks.task import Task
from xtcl.tasks.training_data import TrainingData

__all__ = [
    "TASKS",
    "CustomTask",
    "LinkPrediction",
    "LinkScores",
    "LogisticHead",
    "NodeClassification",
    "NodePredictions",
    "Predictions",
    "Task",
    "TrainingData",
    "fit_logistic",
    "make_task",
]

TASKS: dict[str, type[Task]] = {"nodes": NodeClassification, "links": LinkPrediction}


def make_task(task: str | Task) -> Task:
    """The task called "nodes" or "links", or the task itself."""
    if isinstance(task, Task):
        return task
    if task not in TASKS:
        raise UsageError(
            f"There is no task '{task}'. Known: {', '.join(TASKS)}; or give a CustomTask with your "
            "own indicator function."
        )
    return TASKS[task]()


def __getattr__(name: str) -> Any:
    """`OwnTask`, the old name of `CustomTask`, with a warning."""
    if name != "OwnTask":
        raise AttributeError(f"module 'xtcl.tasks' has no attribute '{name}'")
    return renamed.lookup("xtcl.tasks.OwnTask", "xtcl.tasks.CustomTask")
