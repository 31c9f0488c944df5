"""Which tables make a graph, and how to read them: in Python, or in a small TOML file."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, get_args, get_type_hints

from xtcl.errors import DataError, UsageError, known_names
from xtcl.graph.tables.columns import MISSING_WORDS
from xtcl.graph.tables.edges import LinkColumns
from xtcl.graph.tables.sources import Table, need_column

MAX_CATEGORIES = 100
_GENERIC_NAMES = frozenset({"nodes", "edges", "links", "graph", "vertices", "data", "tables"})
"""File names too general to name a graph by."""
_ENDINGS = (".csv", ".tsv", ".parquet", ".csv.gz", ".tsv.gz")
_ID_NAMES = ("id", "node", "node_id", "nodeid")
_END_NAMES = (("source", "target"), ("src", "dst"), ("from", "to"), ("u", "v"), ("node1", "node2"))
_WEIGHT_NAME = "weight"


@dataclass(frozen=True)
class TableSpec:
    """The arguments of `read_tables`, which explains them."""

    edges: Any
    nodes: Any = None
    label: str | None = None
    id: str | None = None
    source: str | None = None
    target: str | None = None
    weight: str | None = None
    categorical: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    missing: tuple[str, ...] = MISSING_WORDS
    max_categories: int = MAX_CATEGORIES
    scale: bool = True
    name: str | None = None

    def __post_init__(self) -> None:
        for name in ("categorical", "ignore", "missing"):
            value = getattr(self, name)
            if isinstance(value, str) or not all(isinstance(item, str) for item in value):
                raise UsageError(f"{name}={value!r} must be a list of texts.")
            object.__setattr__(self, name, tuple(value))
        if isinstance(self.max_categories, bool) or not isinstance(self.max_categories, int):
            raise UsageError(f"max_categories={self.max_categories!r} must be a whole number.")
        if self.max_categories < 2:
            raise UsageError(f"max_categories={self.max_categories} must be at least 2.")
        words = tuple(sorted({"", *(word.strip().lower() for word in self.missing)}))
        object.__setattr__(self, "missing", words)

    @property
    def title(self) -> str:
        """How to call the graph."""
        table = self.edges if self.nodes is None else self.nodes
        own = _file_title(Path(table)) if isinstance(table, (str, PathLike)) else ""
        return self.name or own or "graph"


def spec_from_toml(path: Path) -> TableSpec:
    """The tables that a TOML file names; their paths are relative to it."""
    try:
        stored = tomllib.loads(path.read_bytes().decode("utf-8-sig"))
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}.") from error
    except (ValueError, RecursionError) as error:  # a UnicodeDecodeError is a ValueError, too
        raise DataError(f"{path} is not a TOML file in UTF-8 ({error}).") from error
    known = get_type_hints(TableSpec)
    for key, value in stored.items():
        if key not in known:
            raise DataError(f"{path}: there is no key '{key}'.{known_names(key, known)}")
        wanted = _toml_types(known[key])
        if type(value) not in wanted:
            kinds = " or ".join(kind.__name__ for kind in wanted)
            raise DataError(f"{path}: {key} = {value!r} must be a {kinds}.")
    if "edges" not in stored:
        raise DataError(f'{path} names no edges; write a line such as edges = "edges.csv".')
    tables: dict[str, Any] = {
        key: path.parent / stored[key] for key in ("nodes", "edges") if key in stored
    }
    try:
        given: dict[str, Any] = {"name": _file_title(path), **stored, **tables}
        return TableSpec(**given)
    except UsageError as error:
        raise DataError(f"{path}: {error}") from error


def _file_title(path: Path) -> str:
    """The file's name without its endings, or its folder's where the file's is too general."""
    own = path.name.partition(".")[0]
    return path.resolve().parent.name or own if own.lower() in _GENERIC_NAMES else own


def _toml_types(hint: Any) -> tuple[type, ...]:
    if hint is Any:
        return (str,)
    choices = get_args(hint)
    if choices and choices[-1] is not type(None):
        return (list,)
    return tuple(kind for kind in choices or (hint,) if kind is not type(None))


def spec_from_folder(folder: Path) -> TableSpec | None:
    """The tables in a folder: what its graph.toml names, else its nodes and edges; or None."""
    if (folder / "graph.toml").is_file():
        return spec_from_toml(folder / "graph.toml")
    found = {
        what: [folder / f"{what}{end}" for end in _ENDINGS if (folder / f"{what}{end}").is_file()]
        for what in ("nodes", "edges")
    }
    for what, paths in found.items():
        if len(paths) > 1:
            raise DataError(
                f"{folder} has several tables of {what} ({', '.join(p.name for p in paths)}); "
                "keep one, or name it in a graph.toml."
            )
    if not found["edges"]:
        return None
    nodes = found["nodes"][0] if found["nodes"] else None
    return TableSpec(edges=found["edges"][0], nodes=nodes, name=folder.resolve().name)


def id_column(table: Table, spec: TableSpec) -> str:
    """The column named, else one called id, else the first."""
    if spec.id is not None:
        return need_column(table, spec.id, "the id")
    by_name = {name.lower(): name for name in reversed(table.columns)}
    return next((by_name[name] for name in _ID_NAMES if name in by_name), table.columns[0])


def link_columns(table: Table, spec: TableSpec) -> LinkColumns:
    """The columns named, else a usual pair of names, else the first two."""
    if len(table.columns) < 2:
        raise DataError(
            f"{table.name} has one column, {table.columns[0]!r}, and an edge has two ends; "
            "separate them by commas or tabs."
        )
    by_name = {name.lower(): name for name in reversed(table.columns)}
    habits = (pair for pair in _END_NAMES if set(pair) <= by_name.keys())
    low, high = next(((by_name[a], by_name[b]) for a, b in habits), table.columns[:2])
    source = low if spec.source is None else need_column(table, spec.source, "the source")
    target = high if spec.target is None else need_column(table, spec.target, "the target")
    if source == target:
        raise DataError(
            f"{table.name}: column {source!r} is both ends of an edge; name source and target."
        )
    weight = by_name.get(_WEIGHT_NAME)
    if spec.weight is not None:
        weight = need_column(table, spec.weight, "the weight")
    return LinkColumns(source, target, None if weight in (source, target) else weight)
