"""Answers as a file: CSV, Parquet or npz, whole or not there."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from xtcl.errors import UsageError
from xtcl.files import atomic_path
from xtcl.graph.graph import Graph

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


KINDS = (".csv", ".parquet")


def check_file(path: Path, kinds: Sequence[str] = KINDS) -> None:
    """Refuse a place where no answers can be written; before any work, and writing nothing."""
    if path.suffix.lower() not in kinds:
        raise UsageError(f"--out '{path}' must end in {' or '.join(kinds)}.")
    if path.is_dir():
        raise UsageError(f"--out '{path}' is a folder; name a file in it.")
    if not path.parent.is_dir():
        raise UsageError(f"There is no folder '{path.parent}' for --out; make it first.")


def write_answers(path: Path, table: AnswerTable) -> None:
    """Write the table as its name's ending says."""
    import pyarrow.parquet as pq

    check_file(path)
    with atomic_path(path) as temporary:
        if path.suffix.lower() == ".csv":
            temporary.write_bytes(table.csv())
        else:
            pq.write_table(table.arrow(), temporary)


MARK = "'"


MARKED = ("=", "+", "-", "@", MARK, "\t", "\r")
"""How a text begins that a spreadsheet might run, or take our mark for."""


BEGINS = f"^({'|'.join(map(re.escape, MARKED))})"


NEGATIVE = r"^-\d+(\.\d+)?\z"
"""A text that begins so and is a plain number."""


DIGITS = 6
"""Of a chance: further ones mean nothing."""


@dataclass(frozen=True)
class AnswerTable:
    """Columns of equal length, of which the first names nodes.

    Texts are object arrays with None where there is nothing, or arrays of strings.
    """

    columns: dict[str, np.ndarray[Any, Any]]

    def frame(self) -> pd.DataFrame:
        """A pandas frame, indexed by the first column."""
        try:
            import pandas as pd
        except ImportError as missing:
            raise UsageError('Frames need pandas: pip install "xtcl[frames]".') from missing
        first = next(iter(self.columns))
        return pd.DataFrame(self.columns).set_index(first)

    def arrow(self) -> pa.Table:
        """An Arrow table."""
        import pyarrow as pa

        return pa.table(
            {
                name: pa.array(column.tolist()) if column.dtype.kind in "OU" else column
                for name, column in self.columns.items()
            }
        )

    def csv(self) -> bytes:
        """CSV that a spreadsheet may open: texts in quotes, numbers without.

        A text that begins as a formula does gets an apostrophe in front, but for plain numbers, and
        so does one that begins with an apostrophe, so that taking off the first one gives the text
        again.
        """
        import pyarrow as pa
        import pyarrow.compute as pc
        from pyarrow.csv import write_csv

        def safe(texts: Any) -> Any:
            marked = pc.replace_substring_regex(texts, BEGINS, rf"{MARK}\1")
            return pc.if_else(pc.match_substring_regex(texts, NEGATIVE), texts, marked)

        table = self.arrow()
        columns = [safe(c) if pa.types.is_string(c.type) else c for c in table.columns]
        names = safe(pa.array(table.column_names)).to_pylist()
        out = BytesIO()
        write_csv(pa.Table.from_arrays(columns, names=names), out)
        return out.getvalue()

    def rows(self) -> list[dict[str, Any]]:
        """A plain mapping for each row."""
        names = list(self.columns)
        values = (column.tolist() for column in self.columns.values())
        return [dict(zip(names, row, strict=True)) for row in zip(*values, strict=True)]


def chances(values: np.ndarray) -> np.ndarray:
    """Chances with the digits that mean something."""
    return np.round(np.asarray(values, dtype=np.float64), DIGITS)


EMBEDDING_KINDS = (*KINDS, ".npz")


def embedding_table(names: np.ndarray[Any, Any], embedding: np.ndarray) -> AnswerTable:
    """A row for each node, with the columns z0, z1, ..."""
    numbers = {f"z{at}": column for at, column in enumerate(np.asfortranarray(embedding).T)}
    return AnswerTable({"node": names, **numbers})


def write_model_embeddings(path: Path, names: np.ndarray[Any, Any], embedding: np.ndarray) -> None:
    """Write the rows as a table, or as the arrays `node` and `embedding` of an npz file."""
    check_file(path, EMBEDDING_KINDS)
    if path.suffix.lower() != ".npz":
        write_answers(path, embedding_table(names, embedding))
        return
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, node=names, embedding=embedding)


MANY = 20_000
"""Ids among which looking for a similar one would take seconds."""


def names_of(graph: Graph) -> np.ndarray[Any, Any]:
    """The id of every node; ids that are neither integers nor strings as text."""
    if graph.node_ids is None:
        return np.arange(graph.num_nodes)
    ids = graph.node_ids
    return ids if ids.dtype.kind in "iuU" else np.array([str(name) for name in ids])


def node_number(graph: Graph, name: object) -> int:
    """The number of the node with the id `name`; refuses one that is not there.

    An id with the apostrophe that CSV has in front of some is found, too.
    """
    names = names_of(graph)
    wanted = str(name)
    texts = names.astype(str)
    found = np.flatnonzero(texts == wanted)
    if not found.size and wanted.startswith(MARK) and wanted[1:].startswith(MARKED):
        found = np.flatnonzero(texts == wanted[1:])
    if not found.size:
        likely = get_close_matches(wanted, map(str, names), n=1) if len(names) <= MANY else []
        hint = f" Did you mean '{likely[0]}'?" if likely else ""
        raise UsageError(
            f"There is no node '{wanted[:80]}' among the {len(names):,} nodes of the run; give an "
            f"id as the tables have it, such as '{names[0]}'.{hint}"
        )
    return int(found[0])


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
