"""Options that several commands share, and what they mean: a graph, a recipe, a share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from xtcl.cli.console import Bars, printable
from xtcl.errors import DataError, UsageError, first_few, known_names

if TYPE_CHECKING:
    from xtcl.config import FitConfig
    from xtcl.graph.graph import Graph
    from xtcl.graph.tables.read import TablesRead
    from xtcl.graph.tables.spec import TableSpec

LARGE_GRAPHS = "Large graphs"
"""The panel of the help with options that small graphs do not need."""
OWN_TABLES_SHARE = {"nodes": 0.8, "links": 0.9}
"""The training share of a user's own tables, by task: only a small rest is for testing."""


class TaskName(StrEnum):
    """The tasks of the command line."""

    nodes = "nodes"
    links = "links"


class EncoderName(StrEnum):
    """The encoders of the command line."""

    gcn = "gcn"
    gat = "gat"


def checked_seed(given: int) -> int:
    """A seed that all generators take."""
    # Not min and max of the option, which its help would spell out.
    if not 0 <= given < 2**32:
        raise typer.BadParameter(f"{given} must be a whole number from 0 to 2**32 - 1.")
    return given


EncoderOption = Annotated[EncoderName, typer.Option("--encoder", help="The graph network.")]
EpochsOption = Annotated[
    int | None,
    typer.Option("--epochs", min=1, metavar="N", help="Of each encoder, not the recipe's."),
]
SamplerOption = Annotated[str, typer.Option("--sampler", help="xtcl, paper (as printed).")]
ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", help="Recipe: TOML file, 2026-11 or quick."),
]
GraphName = Annotated[
    str | None,
    typer.Argument(
        metavar="GRAPH",
        help="Data set, folder of tables, .toml or .npz file.",
        show_default=False,
    ),
]
NodesOption = Annotated[Path | None, typer.Option("--nodes", help="Table of nodes, for GRAPH.")]
EdgesOption = Annotated[Path | None, typer.Option("--edges", help="Table of links, for GRAPH.")]
LabelOption = Annotated[str | None, typer.Option("--label", help="Column with the classes.")]
TaskOption = Annotated[TaskName, typer.Option("--task", help="What to embed for.")]
SeedOption = Annotated[
    int,
    typer.Option("--seed", metavar="N", callback=checked_seed, help="Seeds split and fit."),
]
TrainOption = Annotated[
    float | None,
    typer.Option(
        "--train",
        metavar="SHARE",
        help="Labels (links) to train on; else 0.8 (0.9) of own tables, 0.1 (0.6) of others.",
        show_default=False,
    ),
]
DeviceOption = Annotated[str, typer.Option("--device", help="auto, cpu or cuda.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
FullOption = Annotated[bool, typer.Option("--full", help="Write the embedding with all columns.")]
StoreOption = Annotated[
    Path | None,
    typer.Option(
        "--store", help="Folder that keeps computed relations.", rich_help_panel=LARGE_GRAPHS
    ),
]
CapOption = Annotated[
    int | None,
    typer.Option(
        "--cap",
        min=1,
        help="Top-k mode: K alike nodes a node, as 32.",
        metavar="K",
        rich_help_panel=LARGE_GRAPHS,
    ),
]
IndexOption = Annotated[
    int | None,
    typer.Option(
        "--index-past",
        min=0,
        help="Top-k mode: an index (FAISS) past N nodes.",
        metavar="N",
        rich_help_panel=LARGE_GRAPHS,
    ),
]
DataOption = Annotated[
    Path | None,
    typer.Option("--data", envvar="XTCL_DATA", help="Folder of data sets."),
]
RunFolder = Annotated[
    Path,
    typer.Argument(
        metavar="RUN", help="The folder that `xtcl fit --out` wrote.", show_default=False
    ),
]
NewNodesOption = Annotated[
    Path | None,
    typer.Option("--nodes", help="Table of nodes that came after the fit; answers are for these."),
]
NewEdgesOption = Annotated[
    Path | None,
    typer.Option("--edges", help="Table of links of the new nodes, to old ones or each other."),
]


def training_share(name: str | None, task: str, given: float | None) -> float | None:
    """The share of labels or links to train on; None stands for the paper's share."""
    from xtcl.graph.datasets.load import DATASETS

    known = name is not None and name.lower() in DATASETS
    tables = name is None or Path(name).suffix == ".toml" or Path(name).is_dir()
    return OWN_TABLES_SHARE[task] if given is None and tables and not known else given


def read_source(
    name: str | None,
    data: Path | None,
    nodes: Path | None,
    edges: Path | None,
    label: str | None,
    notes: Console,
) -> Graph | TablesRead:
    """What the user named: tables, a data set (even where a folder has its name), or a graph file.

    Progress of reading large tables is shown on `notes`.
    """
    from xtcl.graph.datasets.load import DATASETS, load_dataset
    from xtcl.graph.graph import Graph
    from xtcl.graph.tables.read import read_spec

    tables = _given_tables(name, nodes, edges, label)
    if tables is not None:
        return read_spec(tables, Bars(notes))
    if name is None:
        raise UsageError("Name a GRAPH, or give your tables with --nodes and --edges.")
    path = Path(name)
    known = name.lower() in DATASETS
    if not known and (tables := _named_tables(path)) is not None:
        named = tables if label is None else replace(tables, label=label)
        return read_spec(named, Bars(notes))
    if label is not None:
        raise UsageError(f"--label names a column of a table, and '{name}' is none; leave it out.")
    if known:
        return load_dataset(name, data)
    if path.suffix == ".npz" and path.is_file():
        return Graph.load(path)
    if path.exists():
        raise UsageError(
            f"'{name}' is not a graph file. Give tables with --nodes and --edges, or a .toml file "
            "that names them, or what Graph.save wrote."
        )
    if path.suffix in (".npz", ".toml"):
        raise UsageError(
            f"There is no file '{name}'; check the path, or name a data set (see `xtcl datasets`)."
        )
    raise UsageError(
        f"There is no data set '{name}', and no file or folder of that name."
        f"{known_names(name, DATASETS)} For tables of your own give a folder with nodes.csv and "
        "edges.csv, a .toml file that names them, or --nodes nodes.csv --edges edges.csv --label "
        "COLUMN."
    )


def _given_tables(
    name: str | None, nodes: Path | None, edges: Path | None, label: str | None
) -> TableSpec | None:
    from xtcl.graph.tables.spec import TableSpec

    if nodes is None and edges is None:
        return None
    if name is not None:
        raise UsageError(f"Give either the GRAPH '{name}' or --nodes and --edges, not both.")
    if edges is None:
        raise UsageError("--nodes alone is no graph: name the table of links with --edges.")
    return TableSpec(edges=edges, nodes=nodes, label=label)


def _named_tables(path: Path) -> TableSpec | None:
    """The tables of a TOML file or a folder, if that is what `path` is."""
    from xtcl.graph.tables.spec import spec_from_folder, spec_from_toml

    try:
        if path.is_dir():
            return spec_from_folder(path)
        return spec_from_toml(path) if path.suffix == ".toml" and path.is_file() else None
    except OSError as error:  # a name too long to be a path
        raise DataError(f"'{path}' cannot be read: {error.strerror}.") from error


def read_graph(
    name: str | None,
    data: Path | None,
    notes: Console,
    task: str,
    *,
    nodes: Path | None = None,
    edges: Path | None = None,
    label: str | None = None,
) -> Graph:
    """The graph to work on; what was repaired, left out or looks wrong is printed to `notes`."""
    from xtcl.graph.graph import Graph
    from xtcl.graph.tables.checks import data_warnings
    from xtcl.graph.tables.read import left_out_notes

    read = read_source(name, data, nodes, edges, label, notes)
    table_notes: tuple[str, ...] = ()
    warnings: list[str] = []
    if not isinstance(read, Graph):
        if task == "nodes" and read.graph.labels is None:
            raise UsageError(_which_label(read))
        table_notes = read.notes
        read = read.graph
        warnings = [f"Looks wrong: {sentence}" for sentence in data_warnings(read, task)]
    repairs = read.repairs.sentences()
    for sentence in (*table_notes, *left_out_notes(read.encoding), *repairs, *warnings):
        notes.print(printable(sentence), markup=False, soft_wrap=True)
    return read


def _which_label(read: TablesRead) -> str:
    encoding = read.graph.encoding
    if encoding is None:
        return "There is no table of nodes, and so no labels: give --nodes, or use --task links."
    likely = sorted(encoding.columns, key=lambda column: column.kind in ("number", "truth"))
    columns = first_few((column.name for column in likely), 10)
    return (
        f"Which column of {read.nodes} holds the classes? Name it with --label (there are: "
        f"{columns}), or use --task links."
    )


def read_config(
    path: Path | None, task: str, encoder: str, seeds: Sequence[int], notes: Console
) -> FitConfig | None:
    """The recipe of --config, a name or a file.

    Warns where it was tuned on nodes or links that `seeds` test.
    """
    from xtcl.config import RECIPES
    from xtcl.runs.config_file import read_recipe
    from xtcl.tasks import make_task

    if path is None:
        return None
    if str(path) in RECIPES and not path.exists():
        return make_task(task).named_recipe(str(path), encoder)
    stored = read_recipe(path, task, encoder)
    if stored.tuned_seed is not None and set(seeds) != {stored.tuned_seed}:
        notes.print(
            f"The recipe in {path} was tuned inside split {stored.tuned_seed}: other splits test "
            "part of what it was tuned on, and their figures may be too high.",
            soft_wrap=True,
            markup=False,
        )
    return stored.recipe
