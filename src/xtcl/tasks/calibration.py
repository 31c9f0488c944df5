r"""How sure scores should be: one factor for all of them, the inverse of a temperature.

.. math:: p(c \mid u) = \mathrm{softmax}(t\, s(u))_c

A factor never changes which class is likeliest, only how likely it is said to be: Guo and others,
"On Calibration of Modern Neural Networks", ICML 2017.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - the usual name
from torch import Tensor

# Finer steps change nothing; rows that are told apart without a mistake can never be sure enough,
# and end at the last.
FACTORS = np.exp(np.linspace(-2.5, 2.5, 41)).tolist()
BLOCK = 2**18  # scores that are multiplied at a time: 2 MiB


def calibrated_likelihood(scores: Tensor, codes: Tensor) -> float:
    """Mean log-likelihood of the codes under softmax(t scores), at the best t of FACTORS."""
    rows = torch.arange(len(codes), device=codes.device)
    likelihoods = [logs[:, rows, codes].mean(dim=1) for logs in _log_chances(scores)]
    return float(torch.cat(likelihoods).max())  # one look at the device


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
    agreement = [(chances * logs).sum(dim=2).mean(dim=1) for logs in _log_chances(scores)]
    return float(FACTORS[int(torch.cat(agreement).argmax())])


def _log_chances(scores: Tensor) -> Iterator[Tensor]:
    """The logarithms of softmax(t scores) [some t, rows, classes], for all t of FACTORS."""
    factors = torch.tensor(FACTORS, dtype=scores.dtype, device=scores.device)
    for some in torch.split(factors, max(1, BLOCK // scores.numel())):
        yield (some[:, None, None] * scores).log_softmax(dim=2)
