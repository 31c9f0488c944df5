"""Pairs of nodes by their ids, from a table."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from xtcl.answers.node_names import names_of
from xtcl.graph.graph import Graph
from xtcl.graph.tables.cells import TEXT
from xtcl.graph.tables.links import read_links
from xtcl.graph.tables.roles import link_columns
from xtcl.graph.tables.spec import TableSpec
from xtcl.graph.tables.table import open_table


def read_pairs(
    source: Any, graph: Graph, further: np.ndarray[Any, Any] | None = None, where: str = "the run"
) -> np.ndarray[Any, Any]:
    """Node numbers [2, n] of the pairs in a table, in its order; weights are not read.

    `further` are ids of nodes that come after those of the graph.
    """
    table = open_table(source, "pairs")
    names = names_of(graph).astype(str)
    if further is not None:
        names = np.concatenate([names, further.astype(str)])
    columns = replace(link_columns(table, TableSpec(source)), weight=None)
    return read_links(table, columns, pa.array(names.tolist(), TEXT), where).pairs
