"""Planetoid's raw files (Yang, Cohen and Salakhutdinov, ICML 2016), as PyG reads them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from xtcl.graph.datasets.compact import compact_attributes
from xtcl.graph.datasets.quiet import quiet_pyg
from xtcl.graph.edges import canonical_edges
from xtcl.graph.graph import Graph


def read_planetoid(folder: Path, prefix: str, name: str) -> Graph:
    """Read `ind.<prefix>.*` with PyG's own reader, so that node order and labels are PyG's.

    The files are pickles: call this only after their hashes were checked. CiteSeer's 15 test nodes
    that have neither attributes nor a label get class 0, as in PyG. Its reader repairs the links
    without a word, so `repairs` come from the neighbour lists in the file.
    """
    with quiet_pyg():
        from torch_geometric.io import planetoid

        data = planetoid.read_planetoid_data(str(folder), prefix)
        lists: Any = planetoid.read_file(str(folder), prefix, "graph")
    both = data.edge_index.numpy()
    graph = Graph.from_arrays(
        compact_attributes(data.x.numpy()),
        both[:, both[0] < both[1]].astype(np.int64),
        data.y.numpy(),
        name=name,
    )
    raw = np.array([(u, v) for u, near in lists.items() for v in near], np.int64)
    _, repairs = canonical_edges(raw.T, graph.num_nodes, directed=True)
    return replace(graph, repairs=repairs)
