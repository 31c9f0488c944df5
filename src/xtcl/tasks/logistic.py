r"""How sure scores should be: one factor for all of them, the inverse of a temperature.

.. math:: p(c \mid u) = \mathrm{softmax}(t\, s(u))_c

A factor never changes which class is likeliest, only how likely it is said to be: Guo and others,
"On Calibration of Modern Neural Networks", ICML 2017.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax
from torch import Tensor

from xtcl.errors import DataError, UsageError, first_few
from xtcl.tasks.logistic_solver import RotatedRows, Weights, rotate_rows, solve_path

# Finer steps change nothing; rows that are told apart without a mistake can never be sure enough,
# and end at the last.
INVERSE_TEMPERATURES = np.exp(np.linspace(-2.5, 2.5, 41)).tolist()


CALIBRATION_BLOCK = 2**18  # scores that are multiplied at a time: 2 MiB


def calibrated_likelihood(scores: Tensor, codes: Tensor) -> float:
    """Mean log-likelihood of the codes under softmax(t scores), at the best t of FACTORS."""
    rows = torch.arange(len(codes), device=codes.device)
    likelihoods = [logs[:, rows, codes].mean(dim=1) for logs in _log_chances(scores)]
    return float(torch.cat(likelihoods).max())  # one look at the device


def inverse_temperature(scores: Tensor, codes: Tensor) -> float:
    """The factor under which held-out `codes` are likeliest, each class seen once more in a row.

    With that, n rows without a mistake speak for a chance of about (n + 1) / (n + classes) and not
    for certainty: Platt, "Probabilistic Outputs for Support Vector Machines", 1999.
    """
    rows, classes = scores.shape
    seen = rows * F.one_hot(codes, classes).double() + 1
    return match_temperature(scores, seen / (rows + classes))


def match_temperature(scores: Tensor, chances: Tensor) -> float:
    """The factor under which softmax(t scores) is closest to given `chances`, by cross-entropy."""
    agreement = [(chances * logs).sum(dim=2).mean(dim=1) for logs in _log_chances(scores)]
    return float(INVERSE_TEMPERATURES[int(torch.cat(agreement).argmax())])


def _log_chances(scores: Tensor) -> Iterator[Tensor]:
    """The logarithms of softmax(t scores) [some t, rows, classes], for all t of FACTORS."""
    factors = torch.tensor(INVERSE_TEMPERATURES, dtype=scores.dtype, device=scores.device)
    for some in torch.split(factors, max(1, CALIBRATION_BLOCK // scores.numel())):
        yield (some[:, None, None] * scores).log_softmax(dim=2)


Codes = NDArray[np.int64]


class Problem(NamedTuple):
    """Rows z - mean, scaled and in principal axes; `classes[codes]` are their labels.

    Codes and turned rows lie where the rows lay, which is where they are fitted.
    """

    mean: Floats
    scale: float
    normalise: bool
    classes: Codes
    codes: Tensor
    turned: RotatedRows


def prepare(
    embedding: RowMatrix, labels: ArrayLike, normalise: bool, device: torch.device | None
) -> Problem:
    """Check, centre, scale and turn the training rows [n, d] with class codes [n]."""
    rows = checked_rows(embedding, "The embedding", device)
    classes, codes = _checked_labels(labels, len(rows))
    mean = rows.mean(dim=0, dtype=torch.float64)
    centred = centred_rows(rows, mean)
    scale = 1.0 if normalise else _scale(centred)
    turned = rotate_rows(standardized(centred, scale, normalise), overwrite=True)
    known = torch.from_numpy(codes).to(rows.device)
    return Problem(mean.cpu().numpy(), scale, normalise, classes, known, turned)


def _checked_labels(labels: ArrayLike, num_rows: int) -> tuple[Codes, Codes]:
    """The classes present, and each label as a position among them."""
    values = np.asarray(labels)
    if values.shape != (num_rows,) or not np.issubdtype(values.dtype, np.integer):
        raise DataError(
            f"The labels are {values.dtype} of shape {values.shape}; "
            f"pass one integer class code for each of the {num_rows} training rows."
        )
    if (values < 0).any():
        raise DataError(
            f"Training rows {first_few(np.flatnonzero(values < 0))} have a negative class code; "
            "leave nodes without a label out of the training rows."
        )
    classes, codes = np.unique(values, return_inverse=True)
    if len(classes) < 2:
        raise DataError(
            f"The {num_rows} training labels are of {len(classes)} class; a classifier needs two. "
            "Label nodes of another class, or draw a larger or a stratified training set."
        )
    return classes.astype(np.int64), codes.astype(np.int64)


def _scale(centred: Tensor) -> float:
    """Root mean square length of the rows; 1 for a constant embedding, which has no length."""
    size = float(centred.square().sum(dim=1).mean().sqrt())
    return size if size > 0 else 1.0


def standardized(centred: Tensor, scale: float, normalise: bool) -> Tensor:
    """Centred rows at unit length each, or all divided by one scale; done in place."""
    if not normalise:
        return centred.div_(scale)
    length = torch.linalg.vector_norm(centred, dim=1, keepdim=True)
    return centred.div_(torch.where(length > 0, length, 1.0))


Floats = NDArray[np.float64]


# Lengths below this share of what was subtracted are rounding, not signal; scaled to unit length
# they would turn a constant embedding into noise.
ROUNDING = 1e-12


RowMatrix = ArrayLike | Tensor


def checked_rows(values: RowMatrix, what: str, device: torch.device | None = None) -> Tensor:
    """`values` on `device` as a matrix of finite floats, of its own precision, or a DataError.

    A tensor has been checked, and is taken where it lies.
    """
    if isinstance(values, Tensor):
        return values
    rows = np.asarray(values)
    if rows.ndim != 2:
        raise DataError(f"{what} has {rows.ndim} dimensions; pass a matrix with one row per node.")
    if rows.dtype not in (np.float32, np.float64):
        rows = rows.astype(np.float64)
    found = torch.from_numpy(np.require(rows, requirements=["C", "W"])).to(device)
    bad = (~torch.isfinite(found).all(dim=1)).nonzero()[:, 0]
    if len(bad):
        raise DataError(
            f"{what} holds values that are not finite, in rows {first_few(bad.cpu().numpy())}. "
            "Look for a diverged training run, or for missing attributes in those rows."
        )
    return found


def take_rows(rows: Tensor, nodes: np.ndarray) -> Tensor:
    """The rows of `nodes`, where `rows` lie."""
    return rows[torch.from_numpy(nodes).to(rows.device)]


def centred_rows(rows: Tensor, centre: Tensor) -> Tensor:
    """`rows - centre` as a float64 copy; a row that differs by rounding alone becomes zero."""
    centred = rows.to(torch.float64, copy=True)
    reach = torch.linalg.vector_norm(centred, dim=1) + torch.linalg.vector_norm(centre)
    centred -= centre
    noise = torch.linalg.vector_norm(centred, dim=1) <= ROUNDING * reach
    return centred.masked_fill_(noise[:, None], 0.0)


# C for rows of unit mean square length. Below them a few hundred labels are all but ignored; above
# them the penalty hardly matters any more.
C_VALUES = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)


# Where no fold can be held out: between the values that did best on small citation graphs.
DEFAULT_C = 3.0


# Likelihoods of a few hundred rows differ by more than that from strength to strength.
CV_TOLERANCE = 1e-3


# Nats below the likeliest strength from which on a weight, exp(-20), is nothing.
STOP_NATS = 20.0


def check_c_values(strengths: Sequence[float]) -> list[float]:
    """The strengths in rising order, each once, or a UsageError."""
    rising = sorted({float(c) for c in strengths})
    if not rising or not all(0.0 < c < np.inf for c in rising):
        raise UsageError(
            f"strengths is {list(strengths)}; give one or more positive finite values of C."
        )
    return rising


def stratified_folds(codes: Codes, folds: int, seed: int) -> Codes:
    """The fold each row is held out in; -1 for the only member of a class, never held out.

    Each class is shuffled and dealt like cards, the next class going on where the last one
    stopped. So folds differ by at most one row, within a class too, and every class keeps a member
    in every training part even when it has fewer members than there are folds.
    """
    rng = np.random.default_rng(seed)
    fold_of = np.full(len(codes), -1, dtype=np.int64)
    dealt = 0
    for code in np.unique(codes):
        members = rng.permutation(np.flatnonzero(codes == code))
        if len(members) > 1:
            fold_of[members] = (dealt + np.arange(len(members))) % folds
            dealt += len(members)
    return fold_of


class ChosenC(NamedTuple):
    """A strength, and what held-out rows say of the likeliest one; nan where none was held out."""

    strength: float
    accuracy: float
    likelihood: float
    """Mean log-likelihood of a held-out row at the best temperature."""
    inverse_temperature: float
    """What scores of a fit with this strength are multiplied by to be as sure as they should."""
    near: Weights | None = None
    """About where the fit of all rows lies: the mean of those that left out a fold, with the
    nearest of the strengths tried."""

    @classmethod
    def untried(cls, strength: float) -> ChosenC:
        """A strength that no held-out row speaks for."""
        return cls(strength, accuracy=np.nan, likelihood=np.nan, inverse_temperature=np.nan)


def choose_c(
    rows: Tensor,
    codes: Tensor,
    num_classes: int,
    strengths: Sequence[float],
    folds: int,
    seed: int,
) -> ChosenC:
    r"""The strength that held-out rows speak for.

    .. math:: \log C = \sum_i p_i \log C_i, \qquad
              p_i \propto \max_t \prod_u \mathrm{softmax}(t\, s_i(u))_{y_u}

    over all held-out rows u with their scores s_i under C_i: the mean of log C under the posterior
    that their likelihood gives. Accuracy on a few hundred rows is too coarse to choose by, and the
    likelihood of plain scores prefers a strong penalty, because a weak one makes scores too sure of
    themselves rather than wrong. The temperature t takes that away (Guo and others, "On Calibration
    of Modern Neural Networks", ICML 2017). Where several C do equally well the mean lies between
    them, so that chance does not decide.

    Past its top the likelihood falls ever faster, so strengths whose weights would be nothing
    (FALLEN) are left out. With no row to hold out (every class has one member) it is the C nearest
    to DEFAULT_C. Cost: a fit for every fold and strength, the folds solved together.
    """
    if folds < 2:
        raise UsageError(f"folds is {folds}; cross-validation needs at least 2.")
    rising = check_c_values(strengths)
    fold_of = torch.from_numpy(stratified_folds(codes.cpu().numpy(), folds, seed)).to(codes)
    known = codes[fold_of >= 0]
    if not len(known):
        return ChosenC.untried(rising[_nearest(rising, DEFAULT_C)])
    accuracy, likelihood, factors, fits = [], [], [], []
    for scores, fit in held_out_scores(rows, codes, num_classes, rising, fold_of):
        fits.append(fit)
        accuracy.append(float((scores.argmax(dim=1) == known).double().mean()))
        likelihood.append(calibrated_likelihood(scores, known))
        factors.append(inverse_temperature(scores, known))
        if len(known) * (max(likelihood) - likelihood[-1]) > STOP_NATS:
            break
    best = int(np.argmax(likelihood))
    # Log-factors fall about evenly with log C, so that their mean belongs to the mean of log C.
    strength, factor = (
        posterior_mean(values, likelihood, len(known))
        for values in (rising[: len(likelihood)], factors)
    )
    near = fits[_nearest(rising[: len(fits)], strength)]
    return ChosenC(strength, accuracy[best], likelihood[best], factor, near)


def _nearest(strengths: Sequence[float], wanted: float) -> int:
    return int(np.argmin([abs(np.log(c / wanted)) for c in strengths]))


def posterior_mean(values: Sequence[float], likelihood: Sequence[float], rows: int) -> float:
    """Their geometric mean, weighted by the mean log-likelihood that so many rows give each."""
    if len(values) == 1:
        return values[0]  # to the last digit
    weights = softmax(rows * np.array(likelihood))
    return float(np.exp(np.average(np.log(values), weights=weights)))


def held_out_scores(
    rows: Tensor, codes: Tensor, num_classes: int, rising: Sequence[float], fold_of: Tensor
) -> Iterator[tuple[Tensor, Weights]]:
    """For every strength the scores [held, classes] of rows by fits that left out their fold.

    And the mean of these fits.
    """
    held = (fold_of >= 0).nonzero()[:, 0]
    kept = fold_of != torch.arange(int(fold_of.max()) + 1, device=codes.device)[:, None]
    for fit in solve_path(rows, codes, num_classes, rising, CV_TOLERANCE, kept):
        everyone = fit.coef @ rows.T + fit.intercept[:, :, None]
        mean = Weights(*(part.mean(dim=0, keepdim=True) for part in fit))
        yield everyone[fold_of[held], :, held], mean


SOLVER_TOLERANCE = 1e-9  # relative error of the coefficients


ROWS_PER_BLOCK = 2**22  # numbers in a block of rows to score: 32 MiB


def scored_rows(width: int) -> int:
    """Rows of so many columns that are scored at a time."""
    return max(1, ROWS_PER_BLOCK // max(1, width))


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
    inverse_temperature_: float
    """What scores are multiplied by to be as sure as held-out rows say; nan where none were."""
    rough_: bool = False
    """Whether it is only good enough to be compared."""

    def predict(self, z: RowMatrix) -> Codes:
        """The class code of each row; ties to the lower code."""
        return np.asarray(self.classes_[self.scores(z).argmax(axis=1)])

    def predict_proba(
        self,
        z: RowMatrix,
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
        if not self.inverse_temperature_ > 0:  # nan: nothing is known about it
            return self
        factor = self.inverse_temperature_
        coef, intercept = factor * self.coef_, factor * self.intercept_
        return replace(self, coef_=coef, intercept_=intercept, inverse_temperature_=1.0)

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
            "sureness": np.array([self.inverse_temperature_]),
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
                inverse_temperature_=float(tensors["sureness"][0]),
            )
        except KeyError as missing:
            raise DataError(
                f"The saved logistic head lacks {missing}; fit and save the model again."
            ) from missing

    def scores(self, z: RowMatrix, device: torch.device | None = None) -> Floats:
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
        step = scored_rows(rows.shape[1])
        mean, coef, intercept = (
            torch.tensor(part, device=rows.device)
            for part in (self.mean_, self.coef_, self.intercept_)
        )
        scores = [
            standardized(centred_rows(part, mean), self.scale_, self.normalise) @ coef.T + intercept
            for part in torch.split(rows, step)
        ]
        return torch.cat(scores)


def fit_logistic(
    embedding: RowMatrix,
    labels: ArrayLike,
    *,
    strengths: Sequence[float] = C_VALUES,
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
    choice = choose_c(rows, codes, num_classes, strengths, folds, seed)
    if rough and choice.near is not None:
        return replace(_head(problem, choice.near, choice), rough_=True)
    (weights,) = solve_path(
        rows, codes, num_classes, [choice.strength], SOLVER_TOLERANCE, start=choice.near
    )
    return _head(problem, weights, choice)


def finished(head: LogisticHead, embedding: RowMatrix, labels: ArrayLike) -> LogisticHead:
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
        inverse_temperature_=head.inverse_temperature_,
    )


def logistic_path(
    embedding: RowMatrix,
    labels: ArrayLike,
    *,
    strengths: Sequence[float] = C_VALUES,
    normalise: bool = True,
    device: torch.device | None = None,
    start: LogisticHead | None = None,
) -> Iterator[LogisticHead]:
    """One converged head per C, in rising order, for callers with a validation set to choose by.

    The search starts from the head `start`, of the same classes: fewer steps where it is near.
    """
    problem = prepare(embedding, labels, normalise, device)
    rising = check_c_values(strengths)
    rows = problem.turned.coordinates
    near = None if start is None else problem.turned.rotate(_weights(start, rows))
    path = solve_path(
        rows, problem.codes, len(problem.classes), rising, SOLVER_TOLERANCE, start=near
    )
    for strength, weights in zip(rising, path, strict=True):
        yield _head(problem, weights, ChosenC.untried(strength))


def _weights(head: LogisticHead, like: Tensor) -> Weights:
    coef, intercept = (torch.from_numpy(part).to(like) for part in (head.coef_, head.intercept_))
    return Weights(coef[None], intercept[None])


def _head(problem: Problem, weights: Weights, choice: ChosenC) -> LogisticHead:
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
        inverse_temperature_=choice.inverse_temperature,
    )
