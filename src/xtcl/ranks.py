"""The former name of `xtcl.distributed`, kept for one release."""

from __future__ import annotations

import warnings
from contextlib import AbstractContextManager

from xtcl.distributed import World, distributed


def together(device: str = "cpu") -> AbstractContextManager[World]:
    """`xtcl.distributed.distributed`."""
    warnings.warn(
        "xtcl.ranks.together is called xtcl.distributed.distributed now; the old name goes with "
        "the next release.",
        DeprecationWarning,
        stacklevel=2,
    )
    return distributed(device)
