"""Planetoid's raw files (Yang, Cohen and Salakhutdinov, ICML 2016), as PyG reads them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from xtcl.graph.datasets.compact import compact_attributes
from xtcl.graph.datasets.quiet import quiet_pyg
from xtcl.graph.graph import Graph


def read_planetoid(folder: Path, prefix: str, name: str) -> Graph:
    """Read `ind.<prefix>.*` with PyG's own reader, so that node order and labels are PyG's.

    The files are pickles: call this only after their hashes were checked. CiteSeer's 15 test nodes
    that have neither attributes nor a label get class 0, as in PyG.
    """
    with quiet_pyg():
        from torch_geometric.io import read_planetoid_data

        data = read_planetoid_data(str(folder), prefix)
    both = data.edge_index.numpy()
    return Graph.from_arrays(
        compact_attributes(data.x.numpy()),
        both[:, both[0] < both[1]].astype(np.int64),
        data.y.numpy(),
        name=name,
    )
