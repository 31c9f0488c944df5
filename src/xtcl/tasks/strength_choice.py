"""The penalty of a logistic regression, chosen inside its own training labels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import softmax
from torch import Tensor

from xtcl.errors import UsageError
from xtcl.tasks.calibration import calibrated_likelihood, sureness
from xtcl.tasks.logistic_solver import Weights, solve_path

Codes = NDArray[np.int64]

# C for rows of unit mean square length. Below them a few hundred labels are all but ignored; above
# them the penalty hardly matters any more.
STRENGTHS = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)
# Where no fold can be held out: between the values that did best on small citation graphs.
USUAL_STRENGTH = 3.0
# Likelihoods of a few hundred rows differ by more than that from strength to strength.
CV_TOLERANCE = 1e-3
# Nats below the likeliest strength from which on a weight, exp(-20), is nothing.
FALLEN = 20.0


def checked_strengths(strengths: Sequence[float]) -> list[float]:
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


class ChosenStrength(NamedTuple):
    """A strength, and what held-out rows say of the likeliest one; nan where none was held out."""

    strength: float
    accuracy: float
    likelihood: float
    """Mean log-likelihood of a held-out row at the best temperature."""
    sureness: float
    """What scores of a fit with this strength are multiplied by to be as sure as they should."""
    near: Weights | None = None
    """About where the fit of all rows lies: the mean of those that left out a fold, with the
    nearest of the strengths tried."""

    @classmethod
    def untried(cls, strength: float) -> ChosenStrength:
        """A strength that no held-out row speaks for."""
        return cls(strength, accuracy=np.nan, likelihood=np.nan, sureness=np.nan)


def choose_strength(
    rows: Tensor,
    codes: Tensor,
    num_classes: int,
    strengths: Sequence[float],
    folds: int,
    seed: int,
) -> ChosenStrength:
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
    to USUAL_STRENGTH. Cost: a fit for every fold and strength, the folds solved together.
    """
    if folds < 2:
        raise UsageError(f"folds is {folds}; cross-validation needs at least 2.")
    rising = checked_strengths(strengths)
    fold_of = torch.from_numpy(stratified_folds(codes.cpu().numpy(), folds, seed)).to(codes)
    known = codes[fold_of >= 0]
    if not len(known):
        return ChosenStrength.untried(rising[_nearest(rising, USUAL_STRENGTH)])
    accuracy, likelihood, factors, fits = [], [], [], []
    for scores, fit in held_out_scores(rows, codes, num_classes, rising, fold_of):
        fits.append(fit)
        accuracy.append(float((scores.argmax(dim=1) == known).double().mean()))
        likelihood.append(calibrated_likelihood(scores, known))
        factors.append(sureness(scores, known))
        if len(known) * (max(likelihood) - likelihood[-1]) > FALLEN:
            break
    best = int(np.argmax(likelihood))
    # Log-factors fall about evenly with log C, so that their mean belongs to the mean of log C.
    strength, factor = (
        posterior_mean(values, likelihood, len(known))
        for values in (rising[: len(likelihood)], factors)
    )
    near = fits[_nearest(rising[: len(fits)], strength)]
    return ChosenStrength(strength, accuracy[best], likelihood[best], factor, near)


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
