r"""How fast time grows with size: the exponent of a power law, with its uncertainty.

.. math:: t = c \, n^b \quad\Longleftrightarrow\quad \log t = \log c + b \log n

The line is fitted by least squares, so that relative errors count alike at all sizes. The interval
is Student's, from the scatter about the line: it takes the errors to be independent and the law to
hold over the whole range. Where small sizes are ruled by fixed costs, the exponent is too low.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from xtcl.errors import DataError, UsageError


@dataclass(frozen=True)
class Growth:
    """Time = `factor` * size ** `exponent`; the exponent's interval is `low` to `high`."""

    exponent: float
    low: float
    high: float
    factor: float
    confidence: float

    def at(self, size: float) -> float:
        """The time of the fitted law at a size."""
        return float(self.factor * size**self.exponent)


def fit_growth(
    sizes: Sequence[float], times: Sequence[float], *, confidence: float = 0.95
) -> Growth:
    """The power law through measurements; a size may be measured several times."""
    if not 0 < confidence < 1:
        raise UsageError(f"confidence={confidence} must be between 0 and 1, such as 0.95.")
    n, t = np.asarray(sizes, float), np.asarray(times, float)
    if n.shape != t.shape or n.ndim != 1 or len(n) < 3 or len(np.unique(n)) < 2:
        raise DataError(
            "Growth needs three measurements or more, of two sizes or more, each with its time; "
            f"got {n.size} sizes ({len(np.unique(n))} different) and {t.size} times."
        )
    if not (np.isfinite(n) & (n > 0)).all() or not (np.isfinite(t) & (t > 0)).all():
        raise DataError("Growth needs sizes and times that are finite and greater than 0.")
    x, y = np.log(n) - np.log(n).mean(), np.log(t) - np.log(t).mean()
    exponent = float(x @ y / (x @ x))
    freedom = len(n) - 2
    error = np.sqrt(np.sum((y - exponent * x) ** 2) / freedom / (x @ x))
    reach = float(error * stats.t.ppf((1 + confidence) / 2, freedom))
    factor = float(np.exp(np.log(t).mean() - exponent * np.log(n).mean()))
    return Growth(exponent, exponent - reach, exponent + reach, factor, confidence)
