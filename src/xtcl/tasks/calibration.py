r"""How sure scores should be: one factor for all of them, the inverse of a temperature.

.. math:: p(c \mid u) = \mathrm{softmax}(t\, s(u))_c

A factor never changes which class is likeliest, only how likely it is said to be: Guo and others,
"On Calibration of Modern Neural Networks", ICML 2017.
"""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - the usual name
from torch import Tensor

# Finer steps change nothing; rows that are told apart without a mistake can never be sure enough,
# and end at the last.
FACTORS = np.exp(np.linspace(-2.5, 2.5, 41)).tolist()


def calibrated_likelihood(scores: Tensor, codes: Tensor) -> float:
    """Mean log-likelihood of the codes under softmax(t scores), at the best t of FACTORS."""
    likelihoods = [
        (t * scores).log_softmax(dim=1).gather(1, codes[:, None]).mean() for t in FACTORS
    ]
    return float(torch.stack(likelihoods).max())  # one look at the device


def sureness(scores: Tensor, codes: Tensor) -> float:
    """The factor under which held-out `codes` are likeliest, each class seen once more in a row.

    With that, n rows without a mistake speak for a chance of about (n + 1) / (n + classes) and not
    for certainty: Platt, "Probabilistic Outputs for Support Vector Machines", 1999.
    """
    rows, classes = scores.shape
    seen = rows * F.one_hot(codes, classes).double() + 1
    return agreeing(scores, seen / (rows + classes))


def agreeing(scores: Tensor, chances: Tensor) -> float:
    """The factor under which softmax(t scores) is closest to given `chances`, by cross-entropy."""
    entropies = [-(chances * (t * scores).log_softmax(dim=1)).sum(dim=1).mean() for t in FACTORS]
    return float(FACTORS[int(torch.stack(entropies).argmin())])
