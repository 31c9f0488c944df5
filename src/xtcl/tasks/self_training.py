"""Self-training: a head fitted again, with its confident predictions as further labels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from xtcl.tasks.logistic import (
    HEAD_TOLERANCE,
    Codes,
    Floats,
    LogisticHead,
    RowMatrix,
    checked_rows,
    logistic_path,
    match_temperature,
    take_rows,
)

SELF_TRAINING_THRESHOLD = 0.8
"""The probability above which a prediction becomes a label."""


MIN_CV_ACCURACY = 0.8
"""The held-out accuracy that a head needs for self-training."""


MAX_PSEUDO_LABELS = 10_000
"""The most predictions that become labels; more of them add nothing."""


def self_train(
    head: LogisticHead,
    embedding: RowMatrix,
    labeled: Codes,
    labels: Codes,
    *,
    threshold: float = SELF_TRAINING_THRESHOLD,
    seed: int = 0,
    device: torch.device | None = None,
) -> LogisticHead:
    r"""Fit `head`, fitted on the `labels` of the rows `labeled`, again with pseudo-labels.

    .. math:: \{(z_u, y_u) \mid u \text{ labeled}\} \cup
              \{(z_u, \hat y_u) \mid \max_c p(c \mid z_u) > \text{threshold}\}

    with the same C: Scudder, "Probability of error of some adaptive pattern-recognition machines",
    IEEE Transactions on Information Theory 11, 1965; Lee, "Pseudo-Label", 2013. A few hundred
    labels do not show where the classes lie among all nodes; pseudo-labels do, but repeat the
    head's mistakes. So a head whose held-out accuracy is below MIN_CV_ACCURACY, or unknown, is
    returned unchanged. `sklearn.semi_supervised.SelfTrainingClassifier` has neither this condition
    nor the warm start and the limit of MAX_PSEUDO_LABELS.

    The held-out figures of the result are those of `head`. Its inverse temperature is the one that
    brings its probabilities closest to the calibrated ones of `head`, because no row was held out
    of it. Cost: a prediction of all rows, and a fit of up to MAX_PSEUDO_LABELS further rows.
    """
    if not head.cv_accuracy_ >= MIN_CV_ACCURACY:
        return head
    rows = checked_rows(embedding, "The embedding", device)
    probabilities = head.predict_proba(rows)
    nodes, codes = with_pseudo_labels(
        probabilities, labeled, labels, threshold=threshold, seed=seed
    )
    return refit_on(head, take_rows(rows, nodes), codes, lambda: shown_rows(rows))


def with_pseudo_labels(
    probabilities: Floats, labeled: Codes, labels: Codes, *, threshold: float, seed: int
) -> tuple[Codes, Codes]:
    """Labelled rows and their labels, and after them those that are predicted with confidence.

    `probabilities` [V, C] are of all rows. Past MAX_PSEUDO_LABELS a random part is taken.
    """
    confident = np.setdiff1d(np.flatnonzero(probabilities.max(axis=1) > threshold), labeled)
    if len(confident) > MAX_PSEUDO_LABELS:
        rng = np.random.default_rng([seed, len(confident)])
        confident = confident[np.sort(rng.permutation(len(confident))[:MAX_PSEUDO_LABELS])]
    codes = np.concatenate([labels, probabilities[confident].argmax(axis=1)])
    return np.concatenate([labeled, confident]), codes


def threshold_for(probabilities: Floats, labeled: Codes, precision: float) -> float:
    """The lowest probability for pseudo-labels that are right in a share of `precision`.

    It is their mean probability, which must be calibrated. 1 where even the surest are not.
    """
    confidence = np.sort(np.delete(probabilities.max(axis=1), labeled))[::-1]
    share = confidence.cumsum() / np.arange(1, len(confidence) + 1)
    taken = int((share >= precision).sum())  # the share falls with every further row
    return float(np.nextafter(confidence[taken - 1], 0.0)) if taken else 1.0


def refit_on(
    head: LogisticHead,
    rows: Tensor,
    codes: Codes,
    shown: Callable[[], Tensor],
    *,
    tolerance: float = HEAD_TOLERANCE,
) -> LogisticHead:
    """The head fitted to the labels `codes` of `rows`, with its C and its calibration.

    `shown` gives rows on which the probabilities of both are compared, after the fit.
    """
    (fit,) = logistic_path(
        rows,
        codes,
        Cs=[head.C_],
        normalise=head.normalise,
        start=head,
        tolerance=tolerance,
    )
    factor = head.inverse_temperature_
    if factor > 0:
        seen = shown()
        calibrated = head.calibrated().decision_tensor(seen).softmax(dim=1)
        factor = match_temperature(fit.decision_tensor(seen), calibrated)
    return replace(
        fit,
        cv_accuracy_=head.cv_accuracy_,
        cv_likelihood_=head.cv_likelihood_,
        inverse_temperature_=factor,
    )


def shown_rows(rows: Tensor) -> Tensor:
    """About MAX_PSEUDO_LABELS rows, evenly spread."""
    return rows[:: max(1, len(rows) // MAX_PSEUDO_LABELS)]
