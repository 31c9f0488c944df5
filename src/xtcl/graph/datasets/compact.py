"""Attributes as dense or sparse rows, whichever serves better."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from xtcl.graph.arrays import Attributes, SparseMatrix

SPARSE_BELOW = 0.2
"""A fifth of non-zeros: below it sparse rows are smaller (8 bytes against 4 each) and quicker."""


def compact_attributes(attributes: Attributes) -> Attributes:
    """The same numbers, sparse where few are non-zero."""
    few = SPARSE_BELOW * attributes.shape[0] * attributes.shape[1]
    if isinstance(attributes, np.ndarray):
        sparse = np.count_nonzero(attributes) < few
        return SparseMatrix(cast("Any", attributes)) if sparse else attributes
    return attributes if attributes.count_nonzero() < few else attributes.toarray()
