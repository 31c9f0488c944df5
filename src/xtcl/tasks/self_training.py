"""A head fitted again, with its own sure answers for further labels."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from xtcl.tasks.logistic import (
    Codes,
    LogisticHead,
    RowMatrix,
    checked_rows,
    logistic_path,
    match_temperature,
    take_rows,
)

SELF_TRAINING_THRESHOLD = 0.8
"""The chance from which on an answer is taken for a label."""


MIN_CV_ACCURACY = 0.8
"""The held-out accuracy that a head must have to be its own teacher."""


MAX_ROWS = 10_000
"""Further labels that are taken; more of them say the same again."""


def self_train(
    head: LogisticHead,
    embedding: RowMatrix,
    known: Codes,
    labels: Codes,
    *,
    sure: float = SELF_TRAINING_THRESHOLD,
    seed: int = 0,
    device: torch.device | None = None,
) -> LogisticHead:
    r"""Fit `head`, which knows the `labels` of the rows `known`, again with its sure answers.

    .. math:: \{(z_u, y_u) \mid u \text{ known}\} \cup
              \{(z_u, \hat y_u) \mid \max_c p(c \mid z_u) > \text{sure}\}

    with the penalty it has: Scudder, "Probability of error of some adaptive pattern-recognition
    machines", IEEE Transactions on Information Theory 11, 1965; Lee, "Pseudo-Label", 2013. A few
    hundred labels do not show where the classes lie among all nodes, and these answers do. They
    also repeat the head's mistakes: one that is right on fewer than MIN_CV_ACCURACY of the rows
    held out of it, or of which this is not known, stays as it is. Held-out figures of the head
    are those of its first fit, where the search starts. Cost: a prediction of all rows, and a fit
    of up to MAX_ROWS more.
    """
    if not head.cv_accuracy_ >= MIN_CV_ACCURACY:
        return head
    rows = checked_rows(embedding, "The embedding", device)
    chances = head.predict_proba(rows)
    answers = chances.argmax(axis=1)
    likely = np.setdiff1d(np.flatnonzero(chances.max(axis=1) > sure), known)
    if len(likely) > MAX_ROWS:
        drawn = np.random.default_rng([seed, len(likely)]).permutation(len(likely))[:MAX_ROWS]
        likely = likely[np.sort(drawn)]
    taken = np.concatenate([known, likely])
    codes = np.concatenate([labels, answers[likely]])
    (again,) = logistic_path(
        take_rows(rows, taken),
        codes,
        strengths=[head.strength_],
        normalise=head.normalise,
        start=head,
    )
    shown = rows[:: max(1, len(rows) // MAX_ROWS)]
    return replace(
        again,
        cv_accuracy_=head.cv_accuracy_,
        cv_likelihood_=head.cv_likelihood_,
        inverse_temperature_=_as_sure_as(head, again, shown),
    )


def _as_sure_as(head: LogisticHead, again: LogisticHead, rows: Tensor) -> float:
    """The factor with which `again` is, on the whole, as sure as `head` is when calibrated.

    Nothing was held out of the second fit but what was held out of the first.
    """
    if not head.inverse_temperature_ > 0:
        return head.inverse_temperature_
    wanted = head.calibrated().device_scores(rows).softmax(dim=1)
    return match_temperature(again.device_scores(rows), wanted)
