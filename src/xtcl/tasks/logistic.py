r"""The head of node classification: multinomial logistic regression on an embedding.

.. math:: s(u) = W x_u + b, \qquad p(c \mid u) = \mathrm{softmax}(t\, s(u))_c

x is a row of the embedding, centred and brought to unit length. W and b minimise the L2-penalised
log-loss (`newton_cg`). Cross-validation inside the training rows chooses C (`choose_c`) and the
inverse temperature t, which changes probabilities but not the likeliest class: Guo and others, "On
Calibration of Modern Neural Networks", ICML 2017.
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
from xtcl.renamed import HEAD_ARRAYS
from xtcl.tasks.newton_cg import HeadWeights, RotatedRows, rotate_rows, solve_path

# For rows of unit mean square length. With a smaller C a few hundred labels hardly count; with a
# larger one the penalty hardly does.
C_VALUES = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)
DEFAULT_C = 3.0  # where no fold can be held out: between the best values on small citation graphs

# A finer grid changes nothing. Rows that are separated without a mistake end at the last value.
INVERSE_TEMPERATURES = np.exp(np.linspace(-2.5, 2.5, 41)).tolist()

HEAD_TOLERANCE = 1e-9  # relative error of the coefficients
CV_TOLERANCE = 1e-3  # log-likelihoods of a few hundred rows differ by more between values of C
_STOP_NATS = 20.0  # a C this far below the best log-likelihood has a weight of exp(-20) or less
_ROUNDING = 1e-12  # a centred row whose length is below this share of its terms is rounding error
_NUMBERS_PER_BLOCK = 2**22  # of rows that are scored at a time: 32 MiB
_CALIBRATION_BLOCK = 2**18  # scores that are multiplied at a time: 2 MiB

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]
RowMatrix = ArrayLike | Tensor


@dataclass(frozen=True)
class LogisticHead:
    """Class scores `x @ coef_.T + intercept_` of rows z.

    Here x is z - mean_, brought to unit length (`normalise`) or divided by scale_.
    """

    coef_: Floats
    """[classes, d]"""
    intercept_: Floats
    classes_: Codes
    """The class codes that have a training row, sorted ascending."""
    mean_: Floats
    scale_: float
    """Root mean square length of the centred training rows; 1 with `normalise`."""
    normalise: bool
    C_: float
    cv_accuracy_: float
    """Held-out accuracy within the training rows at the likeliest C; nan if none was held out."""
    cv_likelihood_: float
    """Mean log-likelihood of a held-out row at that C, calibrated."""
    inverse_temperature_: float
    """The factor of the scores that calibrates probabilities; nan if no row was held out."""
    refitted_: bool = True
    """False: the mean of the fits of the folds, which is good enough to compare heads."""

    def predict(self, z: RowMatrix) -> Codes:
        """The class code of each row; ties to the lower code."""
        return np.asarray(self.classes_[self.decision_function(z).argmax(axis=1)])

    def predict_proba(
        self, z: RowMatrix, num_classes: int | None = None, device: torch.device | None = None
    ) -> Floats:
        """Probabilities [n, num_classes], column c for code c; 0 where c has no training row.

        Computed on `device`, the CPU by default.
        """
        known = int(self.classes_[-1]) + 1
        width = known if num_classes is None else num_classes
        if width < known:
            raise UsageError(
                f"num_classes is {width}, but the head was fitted on class {known - 1}; "
                f"pass {known} or more."
            )
        scores = self.decision_function(z, device)
        probability = np.zeros((len(scores), width))
        probability[:, self.classes_] = softmax(scores, axis=1)
        return probability

    def calibrated(self) -> LogisticHead:
        """The same head with calibrated probabilities; it predicts the same classes."""
        if not self.inverse_temperature_ > 0:  # nan: no row was held out
            return self
        factor = self.inverse_temperature_
        coef, intercept = factor * self.coef_, factor * self.intercept_
        return replace(self, coef_=coef, intercept_=intercept, inverse_temperature_=1.0)

    def decision_function(self, z: RowMatrix, device: torch.device | None = None) -> Floats:
        """Scores [n, classes], a column for each of `classes_`."""
        rows = checked_rows(z, "The embedding", device)
        return np.asarray(self.decision_tensor(rows).cpu().numpy())

    def decision_tensor(self, rows: Tensor) -> Tensor:
        """The same, on the device of the rows."""
        if rows.shape[1] != len(self.mean_):
            raise DataError(
                f"The embedding has {rows.shape[1]} columns, but the head was fitted on "
                f"{len(self.mean_)}; pass rows from the model the head was fitted with."
            )
        mean, coef, intercept = (
            torch.tensor(part, device=rows.device)
            for part in (self.mean_, self.coef_, self.intercept_)
        )
        # In blocks, because standardized rows are a float64 copy.
        block = scored_rows(rows.shape[1])
        scores = [
            _standardize(_centre(part, mean), self.scale_, self.normalise) @ coef.T + intercept
            for part in torch.split(rows, block)
        ]
        return torch.cat(scores)

    def to_tensors(self) -> dict[str, NDArray[Any]]:
        """Everything as arrays, for a safetensors file."""
        return {name.rstrip("_"): np.atleast_1d(getattr(self, name)) for name in _STORED_FIELDS}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, NDArray[Any]]) -> LogisticHead:
        """The head that `to_tensors` wrote, in this version or an earlier one."""
        arrays = {HEAD_ARRAYS.get(name, name): array for name, array in tensors.items()}
        try:
            stored: dict[str, Any] = {name: arrays[name.rstrip("_")] for name in _STORED_FIELDS}
        except KeyError as missing:
            raise DataError(
                f"The saved logistic head lacks {missing}; fit and save the model again."
            ) from missing
        return cls(**stored | {name: stored[name].item() for name in _SCALAR_FIELDS})


_SCALAR_FIELDS = (
    "scale_",
    "normalise",
    "C_",
    "cv_accuracy_",
    "cv_likelihood_",
    "inverse_temperature_",
)
_STORED_FIELDS = ("coef_", "intercept_", "classes_", "mean_", *_SCALAR_FIELDS)


def scored_rows(width: int) -> int:
    """Rows of so many columns that are scored at a time."""
    return max(1, _NUMBERS_PER_BLOCK // max(1, width))


def fit_logistic(
    embedding: RowMatrix,
    labels: ArrayLike,
    *,
    Cs: Sequence[float] = C_VALUES,
    folds: int = 5,
    seed: int = 0,
    normalise: bool = True,
    device: torch.device | None = None,
    refit: bool = True,
) -> LogisticHead:
    """Fit training rows [n, d] to class codes [n], with C chosen by stratified cross-validation.

    Rows are centred by their mean and brought to unit length; with `normalise=False` they are
    divided by one number, so that their mean square length is 1. The seed draws the folds; nothing
    else is random. The fit runs on `device`, the CPU by default.

    With `refit=False` the coefficients are the mean of those of the folds. That is enough to
    compare heads by their held-out likelihood; `refit_logistic` completes the one that is taken.
    """
    problem = prepare_rows(embedding, labels, normalise, device)
    rows, codes, num_classes = problem.rotated.coordinates, problem.codes, len(problem.classes)
    chosen = choose_c(rows, codes, num_classes, Cs, folds, seed)
    if not refit and chosen.fold_mean is not None:
        return replace(_head(problem, chosen.fold_mean, chosen), refitted_=False)
    (weights,) = solve_path(
        rows, codes, num_classes, [chosen.C], HEAD_TOLERANCE, start=chosen.fold_mean
    )
    return _head(problem, weights, chosen)


def refit_logistic(head: LogisticHead, embedding: RowMatrix, labels: ArrayLike) -> LogisticHead:
    """The head that `fit_logistic` returns with `refit=True`, from one with `refit=False`."""
    if head.refitted_:
        return head
    (fit,) = logistic_path(embedding, labels, Cs=[head.C_], normalise=head.normalise, start=head)
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
    Cs: Sequence[float] = C_VALUES,
    normalise: bool = True,
    device: torch.device | None = None,
    start: LogisticHead | None = None,
    tolerance: float = HEAD_TOLERANCE,
) -> Iterator[LogisticHead]:
    """A converged head for each C, sorted ascending, for callers with a validation set.

    The first fit starts at the head `start`, of the same classes, which changes its cost alone.
    `tolerance` is the relative error of the coefficients.
    """
    problem = prepare_rows(embedding, labels, normalise, device)
    Cs = check_c_values(Cs)
    rows = problem.rotated.coordinates
    weights = None
    if start is not None:
        coef, intercept = (torch.from_numpy(x).to(rows) for x in (start.coef_, start.intercept_))
        weights = problem.rotated.rotate(HeadWeights(coef[None], intercept[None]))
    path = solve_path(rows, problem.codes, len(problem.classes), Cs, tolerance, start=weights)
    for C, fit in zip(Cs, path, strict=True):
        yield _head(problem, fit, ChosenC(C))


def _head(problem: PreparedRows, weights: HeadWeights, chosen: ChosenC) -> LogisticHead:
    coef, intercept = (part[0].cpu().numpy() for part in problem.rotated.unrotate(weights))
    return LogisticHead(
        coef_=coef,
        intercept_=intercept,
        classes_=problem.classes,
        mean_=problem.mean,
        scale_=problem.scale,
        normalise=problem.normalise,
        C_=chosen.C,
        cv_accuracy_=chosen.accuracy,
        cv_likelihood_=chosen.likelihood,
        inverse_temperature_=chosen.inverse_temperature,
    )


class ChosenC(NamedTuple):
    """A value of C with the held-out figures of the likeliest one; nan if none was held out."""

    C: float
    accuracy: float = np.nan
    likelihood: float = np.nan  # mean log-likelihood of a held-out row, calibrated
    inverse_temperature: float = np.nan
    fold_mean: HeadWeights | None = None  # mean of the folds' fits at the nearest C that was tried


def choose_c(
    rows: Tensor, codes: Tensor, num_classes: int, Cs: Sequence[float], folds: int, seed: int
) -> ChosenC:
    r"""Choose C by cross-validation.

    .. math:: \log C = \sum_i p_i \log C_i, \qquad
              p_i \propto \max_t \prod_u \mathrm{softmax}(t\, s_i(u))_{y_u}

    over all held-out rows u with their scores s_i under C_i: the posterior mean of log C. Accuracy
    on a few hundred rows is too coarse to choose by. The likelihood of uncalibrated scores prefers
    a small C, because a large one makes scores too large rather than wrong; the inverse temperature
    t corrects that. Where several C are equally good the mean lies between them.

    Past its maximum the likelihood decreases ever faster, so the path ends where the posterior is
    negligible. If no row can be held out (every class has one member), C is the one nearest to
    DEFAULT_C. Cost: a fit for every fold and C, the folds solved together.
    """
    if folds < 2:
        raise UsageError(f"folds is {folds}; cross-validation needs at least 2.")
    Cs = check_c_values(Cs)
    fold_of = torch.from_numpy(stratified_folds(codes.cpu().numpy(), folds, seed)).to(codes)
    held_out = codes[fold_of >= 0]
    if not len(held_out):
        return ChosenC(Cs[_nearest(Cs, DEFAULT_C)])
    accuracy, likelihood, factors, fits = [], [], [], []
    for scores, fit in held_out_scores(rows, codes, num_classes, Cs, fold_of):
        fits.append(fit)
        accuracy.append(float((scores.argmax(dim=1) == held_out).double().mean()))
        likelihood.append(calibrated_likelihood(scores, held_out))
        factors.append(inverse_temperature(scores, held_out))
        if len(held_out) * (max(likelihood) - likelihood[-1]) > _STOP_NATS:
            break
    best = int(np.argmax(likelihood))
    # The log of the inverse temperature is about linear in log C, so it has the same mean.
    C, factor = (
        posterior_mean(values, likelihood, len(held_out))
        for values in (Cs[: len(likelihood)], factors)
    )
    return ChosenC(C, accuracy[best], likelihood[best], factor, fits[_nearest(Cs[: len(fits)], C)])


def held_out_scores_by_c(
    rows: Tensor, labels: Codes, held_out: Tensor, Cs: Sequence[float]
) -> Tensor:
    """Class scores [C, n, classes] of the rows `held_out` [n, d], by fits on other rows."""
    problem = prepare_rows(rows, labels, True, None)
    fits = solve_path(
        problem.rotated.coordinates, problem.codes, len(problem.classes), Cs, CV_TOLERANCE
    )
    heads = (_head(problem, fit, ChosenC(C)) for C, fit in zip(Cs, fits, strict=True))
    return torch.stack([head.decision_tensor(held_out) for head in heads])


def check_c_values(Cs: Sequence[float]) -> list[float]:
    """The distinct values sorted ascending, or a UsageError."""
    ascending = sorted({float(C) for C in Cs})
    if not ascending or not all(0.0 < C < np.inf for C in ascending):
        raise UsageError(f"Cs is {list(Cs)}; give one or more positive finite values of C.")
    return ascending


def _nearest(Cs: Sequence[float], wanted: float) -> int:
    return int(np.argmin([abs(np.log(C / wanted)) for C in Cs]))


def posterior_mean(values: Sequence[float], likelihood: Sequence[float], rows: int) -> float:
    """Their geometric mean, weighted by exp(rows * mean log-likelihood)."""
    if len(values) == 1:
        return values[0]  # exactly
    weights = softmax(rows * np.array(likelihood))
    return float(np.exp(np.average(np.log(values), weights=weights)))


def stratified_folds(codes: Codes, folds: int, seed: int) -> Codes:
    """The fold that each row is held out in; -1 for the only member of a class.

    Each class is shuffled and dealt round robin, starting at the fold after the last one used. So
    folds differ by at most one row, also within a class. Unlike in `StratifiedKFold` every training
    part has a member of every class, even of one with fewer members than there are folds.
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


def held_out_scores(
    rows: Tensor, codes: Tensor, num_classes: int, Cs: Sequence[float], fold_of: Tensor
) -> Iterator[tuple[Tensor, HeadWeights]]:
    """For each C the scores of the held-out rows, and the mean of the folds' fits.

    Scores are [held out, classes], each row's by the fit that left out its fold.
    """
    held_out = (fold_of >= 0).nonzero()[:, 0]
    mask = fold_of != torch.arange(int(fold_of.max()) + 1, device=codes.device)[:, None]
    for fit in solve_path(rows, codes, num_classes, Cs, CV_TOLERANCE, mask):
        scores = fit.coef @ rows.T + fit.intercept[:, :, None]
        mean = HeadWeights(*(part.mean(dim=0, keepdim=True) for part in fit))
        yield scores[fold_of[held_out], :, held_out], mean


def calibrated_likelihood(scores: Tensor, codes: Tensor) -> float:
    """Mean log-likelihood of the codes under softmax(t scores) at the best t."""
    rows = torch.arange(len(codes), device=codes.device)
    likelihoods = [logs[:, rows, codes].mean(dim=1) for logs in _log_softmax(scores)]
    return float(torch.cat(likelihoods).max())  # one transfer from the device


def inverse_temperature(scores: Tensor, codes: Tensor) -> float:
    """The t that makes held-out `codes` likeliest, with one more row of each class in every row.

    So n rows without a mistake give a probability of about (n + 1) / (n + classes) and not 1:
    Platt, "Probabilistic Outputs for Support Vector Machines", 1999.
    """
    rows, classes = scores.shape
    counts = rows * F.one_hot(codes, classes).double() + 1
    return match_temperature(scores, counts / (rows + classes))


def match_temperature(scores: Tensor, probabilities: Tensor) -> float:
    """The t that brings softmax(t scores) closest to `probabilities`, by cross-entropy."""
    agreement = [(probabilities * logs).sum(dim=2).mean(dim=1) for logs in _log_softmax(scores)]
    return float(INVERSE_TEMPERATURES[int(torch.cat(agreement).argmax())])


def _log_softmax(scores: Tensor) -> Iterator[Tensor]:
    """Blocks [some t, rows, classes] of log softmax(t scores), for all INVERSE_TEMPERATURES."""
    factors = torch.tensor(INVERSE_TEMPERATURES, dtype=scores.dtype, device=scores.device)
    for block in torch.split(factors, max(1, _CALIBRATION_BLOCK // scores.numel())):
        yield (block[:, None, None] * scores).log_softmax(dim=2)


class PreparedRows(NamedTuple):
    """Training rows z - mean, scaled and rotated, on the device of the fit."""

    mean: Floats
    scale: float
    normalise: bool
    classes: Codes
    codes: Tensor  # `classes[codes]` are the labels
    rotated: RotatedRows


def prepare_rows(
    embedding: RowMatrix, labels: ArrayLike, normalise: bool, device: torch.device | None
) -> PreparedRows:
    """Check, centre, scale and rotate training rows [n, d] with class codes [n]."""
    rows = checked_rows(embedding, "The embedding", device)
    classes, codes = checked_labels(labels, len(rows))
    mean = rows.mean(dim=0, dtype=torch.float64)
    centred = _centre(rows, mean)
    scale = 1.0 if normalise else _root_mean_square(centred)
    rotated = rotate_rows(_standardize(centred, scale, normalise), overwrite=True)
    on_device = torch.from_numpy(codes).to(rows.device)
    return PreparedRows(mean.cpu().numpy(), scale, normalise, classes, on_device, rotated)


def checked_rows(values: RowMatrix, what: str, device: torch.device | None = None) -> Tensor:
    """`values` on `device` as a matrix of finite floats of its own precision, or a DataError.

    A tensor is returned as it is: it has been checked before.
    """
    if isinstance(values, Tensor):
        return values
    rows = np.asarray(values)
    if rows.ndim != 2:
        raise DataError(f"{what} has {rows.ndim} dimensions; pass a matrix with one row per node.")
    if rows.dtype not in (np.float32, np.float64):
        rows = rows.astype(np.float64)
    tensor = torch.from_numpy(np.require(rows, requirements=["C", "W"])).to(device)
    bad = (~torch.isfinite(tensor).all(dim=1)).nonzero()[:, 0]
    if len(bad):
        raise DataError(
            f"{what} holds values that are not finite, in rows {first_few(bad.cpu().numpy())}. "
            "Look for a diverged training run, or for missing attributes in those rows."
        )
    return tensor


def take_rows(rows: Tensor, nodes: np.ndarray) -> Tensor:
    """The rows of `nodes`, on the device of `rows`."""
    return rows[torch.from_numpy(nodes).to(rows.device)]


def checked_labels(labels: ArrayLike, num_rows: int) -> tuple[Codes, Codes]:
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


def _centre(rows: Tensor, mean: Tensor) -> Tensor:
    """`rows - mean` as a float64 copy; a row that differs by rounding alone becomes zero.

    At unit length rounding would turn a constant embedding into noise.
    """
    centred = rows.to(torch.float64, copy=True)
    size = torch.linalg.vector_norm(centred, dim=1) + torch.linalg.vector_norm(mean)
    centred -= mean
    is_zero = torch.linalg.vector_norm(centred, dim=1) <= _ROUNDING * size
    return centred.masked_fill_(is_zero[:, None], 0.0)


def _root_mean_square(centred: Tensor) -> float:
    """Root mean square length of the rows; 1 for a constant embedding, whose rows have none."""
    size = float(centred.square().sum(dim=1).mean().sqrt())
    return size if size > 0 else 1.0


def _standardize(centred: Tensor, scale: float, normalise: bool) -> Tensor:
    """Centred rows at unit length each, or all divided by one scale; in place."""
    if not normalise:
        return centred.div_(scale)
    length = torch.linalg.vector_norm(centred, dim=1, keepdim=True)
    return centred.div_(torch.where(length > 0, length, 1.0))
