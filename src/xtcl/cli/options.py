"""Options that several commands share."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

LARGE_GRAPHS = "Large graphs"
"""Where the help shows options that small graphs do not need."""


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
ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", help="Recipe of `xtcl tune`, or a config.toml."),
]
GraphName = Annotated[
    str | None,
    typer.Argument(
        metavar="GRAPH",
        help="A data set (`xtcl datasets`), a .toml file or folder of tables, or an .npz file.",
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
        help="Top-k mode: of each node's alike nodes only the K best count; start with 32.",
        metavar="K",
        rich_help_panel=LARGE_GRAPHS,
    ),
]
IndexOption = Annotated[
    int | None,
    typer.Option(
        "--index-past",
        min=0,
        help="Top-k mode: past N nodes, an index (FAISS) finds most of the best.",
        metavar="N",
        rich_help_panel=LARGE_GRAPHS,
    ),
]
DataOption = Annotated[
    Path | None,
    typer.Option("--data", envvar="XTCL_DATA", help="Folder of data sets, PyG's layout."),
]
RunFolder = Annotated[
    Path,
    typer.Argument(
        metavar="RUN", help="The folder that `xtcl fit --out` wrote.", show_default=False
    ),
]
NewNodesOption = Annotated[
    Path | None,
    typer.Option("--nodes", help="Table of new nodes, which came after the fit: ask for those."),
]
NewEdgesOption = Annotated[
    Path | None,
    typer.Option("--edges", help="Table of links of the new nodes, to old ones or each other."),
]
