"""The penalty of a logistic regression, chosen inside its own training labels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from xtcl.errors import UsageError
from xtcl.tasks.logistic_solver import solve_path

Codes = NDArray[np.int64]

# C for rows of unit mean square length. Below them a few hundred labels are all but ignored; above
# them the penalty hardly matters any more.
STRENGTHS = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)
# Where no fold can be held out: between the values that did best on small citation graphs.
USUAL_STRENGTH = 3.0
# Held-out classes hang on the largest score, which moves no more than W does.
CV_TOLERANCE = 1e-3


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


def choose_strength(
    rows: Tensor,
    codes: Tensor,
    num_classes: int,
    strengths: Sequence[float],
    folds: int,
    seed: int,
    *,
    cautious: bool = False,
) -> tuple[float, float]:
    """The C with the best held-out accuracy, and that accuracy.

    A few hundred rows leave many ties; they go to the higher held-out likelihood, and then to the
    stronger penalty. With `cautious` it is the geometric mean of that C and the one with the best
    held-out likelihood, and the accuracy still that of the best: where labels have gone into the
    rows, accuracy jumps from C to C, and likelihood alone is slow to trust many labels.

    With no row to hold out (every class has one member) it is the C nearest to USUAL_STRENGTH, and
    nan.
    """
    if folds < 2:
        raise UsageError(f"folds is {folds}; cross-validation needs at least 2.")
    rising = checked_strengths(strengths)
    fold_of = torch.from_numpy(stratified_folds(codes.cpu().numpy(), folds, seed)).to(codes)
    held = (fold_of >= 0).nonzero()[:, 0]
    if not len(held):
        distance = [abs(np.log(c / USUAL_STRENGTH)) for c in rising]
        return rising[int(np.argmin(distance))], float("nan")
    kept = fold_of != torch.arange(folds, device=codes.device)[:, None]
    right, likelihood = [], []
    for fit in solve_path(rows, codes, num_classes, rising, CV_TOLERANCE, kept):
        everyone = fit.coef @ rows.T + fit.intercept[:, :, None]
        scores = everyone[fold_of[held], :, held]  # each row's from the fold that left it out
        right.append(int((scores.argmax(dim=1) == codes[held]).sum()))
        chosen = scores.log_softmax(dim=1).gather(1, codes[held, None])
        likelihood.append(float(chosen.mean()))
    # The fits are only as exact as CV_TOLERANCE: smaller differences are no preference.
    nearly = np.round(np.array(likelihood) / CV_TOLERANCE)
    best = max(range(len(rising)), key=lambda c: (right[c], nearly[c]))
    likeliest = int(np.argmax(nearly))
    strength = float(np.sqrt(rising[best] * rising[likeliest])) if cautious else rising[best]
    return strength, right[best] / len(held)
