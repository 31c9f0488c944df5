"""A name for a graph's content."""

from __future__ import annotations

import hashlib

import numpy as np

from xtcl.graph.arrays import Attributes, IntArray

_BLOCK_BYTES = 1 << 24


def fingerprint_of(attributes: Attributes, edges: IntArray) -> str:
    """SHA-256 over the shape, the nonzero attributes by row, and the edges.

    Dense attributes are read in blocks of rows as if they were CSR, so that both forms of one
    content agree without a whole copy in the other form.
    """
    counts, columns, values = hashlib.sha256(), hashlib.sha256(), hashlib.sha256()
    if isinstance(attributes, np.ndarray):
        step = max(1, _BLOCK_BYTES // max(1, 4 * attributes.shape[1]))
        for start in range(0, attributes.shape[0], step):
            block = attributes[start : start + step]
            present = block != 0
            counts.update(present.sum(axis=1).astype("<i8").tobytes())
            columns.update(np.nonzero(present)[1].astype("<i8").tobytes())
            values.update(block[present].astype("<f4").tobytes())
    else:
        counts.update(np.diff(attributes.indptr).astype("<i8").tobytes())
        columns.update(attributes.indices.astype("<i8").tobytes())
        values.update(attributes.data.astype("<f4").tobytes())
    whole = hashlib.sha256(f"xtcl graph 1 {attributes.shape} {edges.shape}".encode())
    for part in (counts, columns, values):
        whole.update(part.digest())
    whole.update(edges.astype("<i8").tobytes())
    return whole.hexdigest()
