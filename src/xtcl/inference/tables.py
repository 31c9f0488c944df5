"""Results as tables that name nodes by id, and the files they are written to."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from xtcl.errors import UsageError
from xtcl.files import atomic_path
from xtcl.graph.graph import Graph

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from xtcl.estimator import XTCL


TABLE_SUFFIXES = (".csv", ".parquet")
EMBEDDING_SUFFIXES = (*TABLE_SUFFIXES, ".npz")

CSV_MARK = "'"
"""Written in front of a text in CSV that a spreadsheet would take for a formula."""

_MARKED_STARTS = ("=", "+", "-", "@", CSV_MARK, "\t", "\r")
_MARKED_PATTERN = f"^({'|'.join(map(re.escape, _MARKED_STARTS))})"
_NEGATIVE_NUMBER = r"^-\d+(\.\d+)?\z"

_PROBABILITY_DIGITS = 6
_MAX_IDS_FOR_HINT = 20_000
"""Among more ids the search for a similar one would take seconds."""

_VALUES_PER_ROW_GROUP = 2**26
"""The Parquet writer holds one row group in memory: 256 MB."""


@dataclass(frozen=True)
class ResultTable:
    """Columns of equal length; the first one holds node ids.

    A column of text is an array of strings, or an object array with None for a missing value.
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
        """CSV that is safe to open in a spreadsheet: texts in quotes, numbers without.

        A text gets an apostrophe in front if it starts like a formula and is not a plain number.
        So does a text that starts with an apostrophe: removing the first one restores the text.
        """
        import pyarrow as pa
        import pyarrow.compute as pc
        from pyarrow.csv import write_csv

        def safe(texts: Any) -> Any:
            marked = pc.replace_substring_regex(texts, _MARKED_PATTERN, rf"{CSV_MARK}\1")
            return pc.if_else(pc.match_substring_regex(texts, _NEGATIVE_NUMBER), texts, marked)

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


def embedding_columns(width: int, *, full: bool = False) -> list[str]:
    """Names of the columns: z000, z001, ... of the compact embedding; z0, z1, ... of the full one.

    So a column of one is not taken for one of the other.
    """
    return [f"z{at}" if full else f"z{at:03d}" for at in range(width)]


def embedding_table(
    names: np.ndarray[Any, Any], embedding: np.ndarray, *, full: bool = False
) -> ResultTable:
    """A row for each node: the column `node`, and those of `embedding_columns`."""
    named = embedding_columns(embedding.shape[1], full=full)
    columns = dict(zip(named, np.asfortranarray(embedding).T, strict=True))
    return ResultTable({"node": names, **columns})


def round_probabilities(values: ArrayLike) -> np.ndarray:
    """Probabilities rounded to six digits."""
    return np.round(np.asarray(values, dtype=np.float64), _PROBABILITY_DIGITS)


def check_file(path: Path, suffixes: Sequence[str] = TABLE_SUFFIXES) -> None:
    """Refuse a path that no table can be written to. Writes nothing."""
    if path.suffix.lower() not in suffixes:
        raise UsageError(f"--out '{path}' must end in {' or '.join(suffixes)}.")
    if path.is_dir():
        raise UsageError(f"--out '{path}' is a folder; name a file in it.")
    if not path.parent.is_dir():
        raise UsageError(f"There is no folder '{path.parent}' for --out; make it first.")


def write_table(path: Path, table: ResultTable) -> None:
    """Write the table as CSV or Parquet, by the suffix of `path`."""
    import pyarrow.parquet as pq

    check_file(path)
    with atomic_path(path) as temporary:
        if path.suffix.lower() == ".csv":
            temporary.write_bytes(table.csv())
        else:
            pq.write_table(table.arrow(), temporary)


def write_embeddings(
    path: Path,
    names: np.ndarray[Any, Any],
    embedding: np.ndarray,
    *,
    full: bool = False,
    as_lists: bool = False,
) -> None:
    """Write `embedding_table` as a CSV or Parquet file.

    An .npz file has the arrays `node` and `embedding`. With `as_lists`, a Parquet file has the
    columns `node` and `embedding`, a list of float32.
    """
    check_file(path, EMBEDDING_SUFFIXES)
    if as_lists:
        _write_lists(path, names, embedding)
    elif path.suffix.lower() != ".npz":
        write_table(path, embedding_table(names, embedding, full=full))
    else:
        with atomic_path(path) as temporary, temporary.open("wb") as file:
            np.savez_compressed(file, node=names, embedding=embedding)


def _write_lists(path: Path, names: np.ndarray[Any, Any], embedding: np.ndarray) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    width = embedding.shape[1]
    values = pa.array(np.ascontiguousarray(embedding, dtype=np.float32).ravel())
    rows = pa.FixedSizeListArray.from_arrays(values, width)
    table = pa.table({"node": pa.array(names.tolist()), "embedding": rows})
    with atomic_path(path) as temporary:
        group = max(1, _VALUES_PER_ROW_GROUP // max(1, width))
        pq.write_table(table, temporary, row_group_size=group)


def names_of(graph: Graph) -> np.ndarray[Any, Any]:
    """The id of every node; ids that are neither integers nor strings become text."""
    if graph.node_ids is None:
        return np.arange(graph.num_nodes)
    ids = graph.node_ids
    return ids if ids.dtype.kind in "iuU" else np.array([str(name) for name in ids])


def node_number(graph: Graph, name: object) -> int:
    """The index of the node with the id `name`, also if `name` has the apostrophe of CSV."""
    names = names_of(graph)
    wanted = str(name)
    texts = names.astype(str)
    found = np.flatnonzero(texts == wanted)
    if not found.size and wanted.startswith(CSV_MARK) and needs_mark(wanted[1:]):
        found = np.flatnonzero(texts == wanted[1:])
    if not found.size:
        likely = []
        if len(names) <= _MAX_IDS_FOR_HINT:
            likely = get_close_matches(wanted, map(str, names), n=1)
        hint = f" Did you mean '{likely[0]}'?" if likely else ""
        raise UsageError(
            f"There is no node '{wanted[:80]}' among the {len(names):,} nodes of the run; give an "
            f"id as the tables have it, such as '{names[0]}'.{hint}"
        )
    return int(found[0])


def needs_mark(text: str) -> bool:
    """Whether `text` starts like a formula, or with the mark itself."""
    return text.startswith(_MARKED_STARTS)


def node_indices(model: XTCL, nodes: ArrayLike | None) -> np.ndarray:
    """Indices of the nodes that were given as indices or as a mask [V]; None means all."""
    count = len(model.embedding_)
    chosen = np.arange(count) if nodes is None else np.atleast_1d(np.asarray(nodes))
    if chosen.dtype == bool and chosen.shape == (count,):
        return np.flatnonzero(chosen)
    if chosen.size and not np.issubdtype(chosen.dtype, np.integer):
        raise UsageError(f"Nodes are whole numbers from 0 to {count - 1}, not {chosen.dtype}.")
    outside = chosen[(chosen < 0) | (chosen >= count)]
    if outside.size:
        raise UsageError(f"Nodes are 0 to {count - 1}; {outside[0]} is not among them.")
    return chosen.astype(np.int64)
