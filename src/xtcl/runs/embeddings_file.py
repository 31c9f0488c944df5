"""Embeddings as a Parquet file."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from xtcl.files import atomic_path
from xtcl.graph.graph import Graph

GROUP = 2**26
"""Numbers in a group of rows: 256 MB."""


def write_embeddings(path: Path, embedding: np.ndarray, graph: Graph) -> None:
    """Two columns: `node` (the original id, or the index) and `embedding` (a list of floats).

    Ids that are neither all integers nor all strings are written as text.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    ids = np.arange(len(embedding)) if graph.node_ids is None else graph.node_ids
    names = ids.tolist() if ids.dtype.kind in "iuU" else [str(name) for name in ids]
    values = pa.array(np.ascontiguousarray(embedding, dtype=np.float32).ravel())
    rows = pa.FixedSizeListArray.from_arrays(values, embedding.shape[1])
    table = pa.table({"node": pa.array(names), "embedding": rows})
    with atomic_path(path) as temporary:
        # The writer holds a group of rows in memory until it is whole.
        pq.write_table(table, temporary, row_group_size=max(1, GROUP // max(1, embedding.shape[1])))
