"""Pairs of nodes by their ids, from a table."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from xtcl.answers.answer_table import MARK, MARKED
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

    `further` are ids of nodes that come after those of the graph. An id may have the apostrophe
    that CSV puts in front of some, unless another id is written so.
    """
    table = open_table(source, "pairs")
    names = names_of(graph).astype(str).tolist()
    if further is not None:
        names += further.astype(str).tolist()
    known = set(names)
    marked = [
        at for at, name in enumerate(names) if name.startswith(MARKED) and MARK + name not in known
    ]
    places = np.concatenate([np.arange(len(names)), np.array(marked, np.int64)])
    written = names + [MARK + names[at] for at in marked]
    columns = replace(link_columns(table, TableSpec(source)), weight=None)
    return places[read_links(table, columns, pa.array(written, TEXT), where).pairs]
