"""The standard error of a mean."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def standard_error(values: Sequence[float] | np.ndarray) -> float | None:
    """Standard deviation over the root of their number; of a single value it is not known."""
    return float(np.std(values, ddof=1) / len(values) ** 0.5) if len(values) > 1 else None
