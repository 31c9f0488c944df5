"""Nodes that come after a fit, read as the table of the fit was read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from xtcl.errors import DataError
from xtcl.graph.arrays import Attributes
from xtcl.graph.tables.encode import encode_table
from xtcl.graph.tables.encoding import TableEncoding
from xtcl.graph.tables.ids import check_ids, id_cells, node_ids
from xtcl.graph.tables.meter import meter
from xtcl.graph.tables.table import Table, need_column, open_table
from xtcl.progress import Progress


@dataclass(frozen=True)
class NewNodes:
    """Their ids [n], and their attributes [n, D] in the order of the fit's."""

    ids: np.ndarray[Any, Any]
    attributes: Attributes


def encode_nodes(nodes: Any, encoding: TableEncoding, progress: Progress | None = None) -> NewNodes:
    """Read a table (path or frame) by the means, scales and categories of `encoding`.

    It needs the columns that give attributes, in any order; others are not read. A category that
    the fit has not seen counts as missing.
    """
    with meter(progress or Progress(), [(nodes, 2)]) as told:
        return _encoded(open_table(nodes, "new nodes", told), encoding)


def _encoded(table: Table, encoding: TableEncoding) -> NewNodes:
    own = need_column(table, encoding.id, "the id")
    cells: list[Any] = []
    rows = 0
    for batch in table.batches([own]):
        cells.append(id_cells(batch.column(0), table, own, rows))
        rows += batch.num_rows
    if not rows:
        raise DataError(f"{table.name} has column names, but no rows.")
    ids = node_ids(check_ids(cells, table, own))
    return NewNodes(np.arange(rows) if ids is None else ids, encode_table(table, encoding, rows))
