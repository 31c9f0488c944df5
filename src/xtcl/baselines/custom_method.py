"""A user's own method: what it may be, and what it may predict."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import scipy.sparse as sp
import torch

from xtcl.baselines import make_method
from xtcl.baselines.method import Method
from xtcl.errors import DataError, UsageError
from xtcl.progress import Progress
from xtcl.tasks import TASKS, LinkScores, NodePredictions, Predictions, TrainingData
from xtcl.tasks.fit import fit_task
from xtcl.training.checkpoint import NullCheckpoints

if TYPE_CHECKING:
    from xtcl.estimator import XTCL

OFFERED = ("task", "seed", "device", "progress")
"""What a function gets beside the data, where it has parameters of these names."""


class CustomMethod(Method):
    """Calls the user's method; `custom_method` makes a subclass for each."""

    given: ClassVar[Any]

    def fit(
        self, side: TrainingData, task: str, *, seed: int, device: torch.device, progress: Progress
    ) -> Predictions:
        """What the user's method predicts, checked."""
        self.check_task(task)
        values: dict[str, Any] = {
            "task": task,
            "seed": seed,
            "device": device,
            "progress": progress,
        }
        given = self.given() if isinstance(self.given, type) else self.given
        if _is_xtcl(given):
            return _fit_xtcl(given, side, **values)
        if _is_classifier(given):
            return to_predictions(_fit_classifier(given, side, task), side, task, self.title)
        call = given if not hasattr(given, "fit") else given.fit
        names = _parameters(call, self.name)
        chosen = {name: values[name] for name in names}
        return to_predictions(call(side, **chosen), side, task, self.title)


def as_method(method: Any) -> Method:
    """The method of that name, or what the user gave as a method."""
    return make_method(method) if isinstance(method, str) else custom_method(method)()


def custom_method(
    given: Any, name: str | None = None, tasks: Iterable[str] | None = None
) -> type[Method]:
    """A class of method that calls `given`: a function, an estimator, a Method or its class."""
    kind = given if isinstance(given, type) else type(given)
    called = str(name or getattr(given, "name", None) or getattr(given, "__name__", kind.__name__))
    if not (hasattr(given, "fit") or (callable(given) and not isinstance(given, type))):
        raise UsageError(
            f"A method cannot be of type {kind.__name__}: give a function of the training data, a "
            "Method, an XTCL or a scikit-learn classifier."
        )
    if not (isinstance(given, type) or _is_xtcl(given) or _is_classifier(given)):
        _parameters(given if not hasattr(given, "fit") else given.fit, called)
    tasks = [tasks] if isinstance(tasks, str) else tasks
    if tasks is not None and not isinstance(tasks, Iterable):
        raise UsageError(f"tasks={tasks!r} must be names of tasks: {', '.join(TASKS)}.")
    known = frozenset(
        tasks or getattr(given, "tasks", None) or (["nodes"] if _is_classifier(given) else TASKS)
    )
    for task in known:
        if task not in TASKS:
            raise UsageError(f"There is no task '{task}'. Known: {', '.join(TASKS)}.")
    about = {
        # A function that is an attribute of a class would be taken for a method of it.
        "given": staticmethod(given) if inspect.isfunction(given) else given,
        "name": called,
        "title": getattr(given, "title", called),
        "tasks": known,
        "__doc__": inspect.getdoc(given) or f"The method '{called}' of your own.",
        "__module__": getattr(given, "__module__", __name__),
    }
    return type("CustomMethod", (CustomMethod,), about)


def _parameters(call: Callable[..., Any], name: str) -> list[str]:
    """Which of OFFERED a function takes; refuses one that needs something else."""
    parameters = list(inspect.signature(call).parameters.values())
    others = parameters[1:]
    if not parameters or parameters[0].kind is inspect.Parameter.KEYWORD_ONLY:
        raise UsageError(f"Method '{name}' takes no argument: its first one is the training data.")
    if any(each.kind is each.VAR_KEYWORD for each in others):
        return list(OFFERED)
    for each in others:
        needed = each.default is each.empty and each.kind is not each.VAR_POSITIONAL
        if needed and each.name not in OFFERED:
            raise UsageError(
                f"Method '{name}' needs '{each.name}', which is not provided: it gets the training "
                f"data, and those of {', '.join(OFFERED)} that it names."
            )
    return [each.name for each in others if each.name in OFFERED]


def _is_xtcl(given: Any) -> bool:
    from xtcl.estimator import XTCL

    return isinstance(given, XTCL)


def _is_classifier(given: Any) -> bool:
    """Whether it learns from rows and classes, as scikit-learn's classifiers do."""
    is_method = isinstance(given, (type, Method)) or _is_xtcl(given)
    return not is_method and hasattr(given, "fit") and hasattr(given, "predict")


def _fit_xtcl(
    model: XTCL,
    side: TrainingData,
    *,
    task: str,
    seed: int,
    device: torch.device,
    progress: Progress,
) -> Predictions:
    """A copy of the estimator, with the task and the seed of this fit."""
    from sklearn.base import clone

    from xtcl.prepare import FitSettings, prepare_data

    copied = clone(model).set_params(task=task, random_state=seed, device=str(device))
    prepared = prepare_data(FitSettings.of(copied), side.graph, None, side)
    for note in prepared.plan.notes:
        warnings.warn(note, stacklevel=2)
    options = prepared.options(progress, NullCheckpoints())
    return fit_task(prepared.data, prepared.task, prepared.config, options).answer


def _fit_classifier(given: Any, side: TrainingData, task: str) -> np.ndarray:
    """A copy of the classifier, fitted on the attributes of the labelled nodes."""
    from sklearn.base import clone

    if not side.graph.has_attributes:
        raise DataError(
            f"Graph '{side.graph.name}' has no attributes, which a {type(given).__name__} learns "
            "from: give some, or a function of your own."
        )
    x = side.graph.attributes
    rows = sp.csr_matrix(x) if sp.issparse(x) else np.asarray(x)
    model = clone(given).fit(rows[side.labelled], side.known_labels)
    if not hasattr(model, "predict_proba"):
        return np.asarray(model.predict(rows))
    table = np.zeros((side.graph.num_nodes, side.graph.num_classes))
    table[:, model.classes_] = model.predict_proba(rows)
    return table


def to_predictions(answer: Any, side: TrainingData, task: str, title: str) -> Predictions:
    """What a method returned, as predictions; a wrong kind or shape is refused.

    For nodes, class probabilities [V, C] or class codes [V]. For links, a function that gives the
    scores [n] of pairs [2, n]: the higher, the more likely a link.
    """
    if isinstance(answer, (NodePredictions, LinkScores)):
        return answer
    if task == "links":
        if not callable(answer) or isinstance(answer, torch.nn.Module):
            raise UsageError(
                f"{title} returned a {type(answer).__name__} for links: return a function of pairs "
                "[2, n] that gives their n scores."
            )
        return LinkScores(_checked_scorer(answer, title))
    table = np.asarray(answer.detach().cpu() if isinstance(answer, torch.Tensor) else answer)
    nodes, classes = side.graph.num_nodes, side.graph.num_classes
    wanted = f"return class probabilities [{nodes}, {classes}] or class codes [{nodes}]"
    if table.shape not in ((nodes, classes), (nodes,)) or table.dtype.kind not in "iuf":
        raise UsageError(
            f"{title} returned an array of shape {table.shape} and type {table.dtype} for "
            f"{nodes} nodes of {classes} classes: {wanted}."
        )
    if table.ndim == 1:
        if table.dtype.kind == "f" or not ((table >= 0) & (table < classes)).all():
            raise UsageError(
                f"{title} returned class codes that are not whole numbers from 0 to "
                f"{classes - 1}: {wanted}."
            )
        return NodePredictions(np.eye(classes)[table])
    table = table.astype(np.float64)
    if not ((table >= 0).all() and np.allclose(table.sum(axis=1), 1.0, atol=1e-3)):
        raise UsageError(
            f"{title} returned rows that are no probabilities: they must not be negative and sum "
            "to 1. Take the softmax of scores, or return class codes."
        )
    return NodePredictions(table)


def _checked_scorer(score: Callable[[np.ndarray], Any], title: str) -> Callable[..., np.ndarray]:
    def checked(pairs: np.ndarray) -> np.ndarray:
        given = score(pairs)
        values = given.detach().cpu() if isinstance(given, torch.Tensor) else given
        scores = np.asarray(values, dtype=np.float64)
        if scores.shape != (pairs.shape[1],):
            raise UsageError(
                f"The scores of {title} have shape {scores.shape}: return one number for each of "
                f"the {pairs.shape[1]} pairs."
            )
        return scores

    return checked
