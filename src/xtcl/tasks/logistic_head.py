"""Multinomial logistic regression on embeddings: the head of node classification."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from xtcl.errors import DataError, UsageError
from xtcl.tasks.logistic_problem import Codes, Problem, prepare, scaled
from xtcl.tasks.logistic_solver import Weights, solve_path
from xtcl.tasks.rows import Floats, Rows, centred_rows, checked_rows
from xtcl.tasks.strength_choice import STRENGTHS, ChosenStrength, checked_strengths, choose_strength

TOLERANCE = 1e-9  # relative error of the coefficients
BLOCK = 2**22  # numbers in a block of rows to score: 32 MiB


@dataclass(frozen=True)
class LogisticHead:
    """Class scores `x @ coef_.T + intercept_`.

    Here x is a row z - mean_, brought to unit length (`normalise`) or divided by scale_.
    """

    coef_: Floats
    """[classes, d]"""
    intercept_: Floats
    classes_: Codes
    """The class codes that have a training row, rising."""
    mean_: Floats
    scale_: float
    """Root mean square length of the centred training rows; 1 with `normalise`."""
    normalise: bool
    strength_: float
    cv_accuracy_: float
    """Held-out accuracy inside the training rows, at the likeliest of the strengths tried; nan
    where nothing was held out."""
    cv_likelihood_: float
    """Held-out log-likelihood of a row there, calibrated."""
    sureness_: float
    """What scores are multiplied by to be as sure as held-out rows say; nan where none were."""
    rough_: bool = False
    """Whether it is only good enough to be compared."""

    def predict(self, z: Rows) -> Codes:
        """The class code of each row; ties to the lower code."""
        return np.asarray(self.classes_[self.scores(z).argmax(axis=1)])

    def predict_proba(
        self,
        z: Rows,
        num_classes: int | None = None,
        device: torch.device | None = None,
    ) -> Floats:
        """Probabilities [n, num_classes], column c for code c; 0 where c has no training row.

        Computed on `device`, the CPU by default.
        """
        known = int(self.classes_[-1]) + 1
        width = known if num_classes is None else num_classes
        if width < known:
            raise UsageError(
                f"num_classes is {width}, but the head knows class {known - 1}; "
                f"pass {known} or more."
            )
        scores = self.scores(z, device)
        likelihood = np.exp(scores - scores.max(axis=1, keepdims=True))
        probability = np.zeros((len(scores), width))
        probability[:, self.classes_] = likelihood / likelihood.sum(axis=1, keepdims=True)
        return probability

    def calibrated(self) -> LogisticHead:
        """The head whose chances are as high as they should be; its classes are the same."""
        if not self.sureness_ > 0:  # nan: nothing is known about it
            return self
        factor = self.sureness_
        coef, intercept = factor * self.coef_, factor * self.intercept_
        return replace(self, coef_=coef, intercept_=intercept, sureness_=1.0)

    def to_tensors(self) -> dict[str, NDArray[Any]]:
        """Everything as arrays, for a safetensors file."""
        return {
            "coef": self.coef_,
            "intercept": self.intercept_,
            "classes": self.classes_,
            "mean": self.mean_,
            "scale": np.array([self.scale_]),
            "normalise": np.array([self.normalise]),
            "strength": np.array([self.strength_]),
            "cv_accuracy": np.array([self.cv_accuracy_]),
            "cv_likelihood": np.array([self.cv_likelihood_]),
            "sureness": np.array([self.sureness_]),
        }

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, NDArray[Any]]) -> LogisticHead:
        """The head that `to_tensors` wrote."""
        try:
            return cls(
                coef_=tensors["coef"],
                intercept_=tensors["intercept"],
                classes_=tensors["classes"],
                mean_=tensors["mean"],
                scale_=float(tensors["scale"][0]),
                normalise=bool(tensors["normalise"][0]),
                strength_=float(tensors["strength"][0]),
                cv_accuracy_=float(tensors["cv_accuracy"][0]),
                cv_likelihood_=float(tensors["cv_likelihood"][0]),
                sureness_=float(tensors["sureness"][0]),
            )
        except KeyError as missing:
            raise DataError(
                f"The saved logistic head lacks {missing}; fit and save the model again."
            ) from missing

    def scores(self, z: Rows, device: torch.device | None = None) -> Floats:
        """Scores [n, classes], a column for each of `classes_`."""
        return np.asarray(
            self.device_scores(checked_rows(z, "The embedding", device)).cpu().numpy()
        )

    def device_scores(self, rows: Tensor) -> Tensor:
        """The same, where the rows lie."""
        if rows.shape[1] != len(self.mean_):
            raise DataError(
                f"The embedding has {rows.shape[1]} columns, but the head was fitted on "
                f"{len(self.mean_)}; pass rows from the model the head was fitted with."
            )
        # Prepared rows are float64; those of all nodes at once would be copies of the embedding.
        step = max(1, BLOCK // max(1, rows.shape[1]))
        mean, coef, intercept = (
            torch.tensor(part, device=rows.device)
            for part in (self.mean_, self.coef_, self.intercept_)
        )
        scores = [
            scaled(centred_rows(part, mean), self.scale_, self.normalise) @ coef.T + intercept
            for part in torch.split(rows, step)
        ]
        return torch.cat(scores)


def fit_logistic(
    embedding: Rows,
    labels: ArrayLike,
    *,
    strengths: Sequence[float] = STRENGTHS,
    folds: int = 5,
    seed: int = 0,
    normalise: bool = True,
    device: torch.device | None = None,
    rough: bool = False,
) -> LogisticHead:
    """Fit training rows [n, d] to class codes [n], with C chosen by stratified cross-validation.

    Rows are centred by their mean and brought to unit length; with `normalise=False` they are
    divided by one number, so that their mean square length is 1. The seed draws the folds; nothing
    else is random. The fit runs on `device`, the CPU by default.

    A `rough` head has the mean of the folds' fits for its own, and all that held-out rows say:
    enough to choose a head by, which `finished` then fits.
    """
    problem = prepare(embedding, labels, normalise, device)
    rows, codes, num_classes = problem.turned.coordinates, problem.codes, len(problem.classes)
    choice = choose_strength(rows, codes, num_classes, strengths, folds, seed)
    if rough and choice.near is not None:
        return replace(_head(problem, choice.near, choice), rough_=True)
    (weights,) = solve_path(
        rows, codes, num_classes, [choice.strength], TOLERANCE, start=choice.near
    )
    return _head(problem, weights, choice)


def finished(head: LogisticHead, embedding: Rows, labels: ArrayLike) -> LogisticHead:
    """The head that `fit_logistic` would have fitted, had it not been asked for a rough one."""
    if not head.rough_:
        return head
    (fit,) = logistic_path(
        embedding, labels, strengths=[head.strength_], normalise=head.normalise, start=head
    )
    return replace(
        fit,
        cv_accuracy_=head.cv_accuracy_,
        cv_likelihood_=head.cv_likelihood_,
        sureness_=head.sureness_,
    )


def logistic_path(
    embedding: Rows,
    labels: ArrayLike,
    *,
    strengths: Sequence[float] = STRENGTHS,
    normalise: bool = True,
    device: torch.device | None = None,
    start: LogisticHead | None = None,
) -> Iterator[LogisticHead]:
    """One converged head per C, in rising order, for callers with a validation set to choose by.

    The search starts from the head `start`, of the same classes: fewer steps where it is near.
    """
    problem = prepare(embedding, labels, normalise, device)
    rising = checked_strengths(strengths)
    rows = problem.turned.coordinates
    near = None if start is None else problem.turned.rotate(_weights(start, rows))
    path = solve_path(rows, problem.codes, len(problem.classes), rising, TOLERANCE, start=near)
    for strength, weights in zip(rising, path, strict=True):
        yield _head(problem, weights, ChosenStrength.untried(strength))


def _weights(head: LogisticHead, like: Tensor) -> Weights:
    coef, intercept = (torch.from_numpy(part).to(like) for part in (head.coef_, head.intercept_))
    return Weights(coef[None], intercept[None])


def _head(problem: Problem, weights: Weights, choice: ChosenStrength) -> LogisticHead:
    coef, intercept = (part[0].cpu().numpy() for part in problem.turned.unrotate(weights))
    return LogisticHead(
        coef_=coef,
        intercept_=intercept,
        classes_=problem.classes,
        mean_=problem.mean,
        scale_=problem.scale,
        normalise=problem.normalise,
        strength_=choice.strength,
        cv_accuracy_=choice.accuracy,
        cv_likelihood_=choice.likelihood,
        sureness_=choice.sureness,
    )
