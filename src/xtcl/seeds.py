"""The seed of a fit, from what `random_state` may be."""

from __future__ import annotations

import numpy as np

from xtcl.distributed import world
from xtcl.errors import UsageError


def check_seed(random_state: object) -> None:
    """Refuse what cannot seed a fit."""
    if random_state is None or isinstance(random_state, np.random.RandomState):
        return
    if not isinstance(random_state, (int, np.integer)) or not 0 <= random_state < 2**32:
        raise UsageError(
            f"random_state={random_state} must be a whole number from 0 to 2**32 - 1, a "
            "numpy.random.RandomState, or None for another seed in each fit."
        )


def drawn_seed(random_state: int | np.random.RandomState | None) -> int:
    """The seed itself, or one drawn: from a RandomState, or from the system for None.

    Processes that share a fit take the seed of the first.
    """
    check_seed(random_state)
    if isinstance(random_state, (int, np.integer)):
        return int(random_state)
    if random_state is None:
        drawn = int(np.random.SeedSequence().generate_state(1)[0])
    else:
        drawn = int(random_state.randint(2**32, dtype=np.uint32))
    return int(world().broadcast_float(drawn))
