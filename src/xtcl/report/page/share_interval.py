"""How sure a share is."""

from __future__ import annotations

import math

Z = 1.96


def wilson(right: int, count: int) -> tuple[float, float]:
    """The 95 % interval of a share (Wilson, 1927); sound for few nodes, and near 0 and 1."""
    if not count:
        return 0.0, 1.0
    share, wide = right / count, Z * Z / count
    middle = (share + wide / 2) / (1 + wide)
    half = Z * math.sqrt(share * (1 - share) / count + wide / (4 * count)) / (1 + wide)
    return max(0.0, middle - half), min(1.0, middle + half)
