"""The GRAPH argument."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from xtcl.errors import UsageError

if TYPE_CHECKING:
    from xtcl.graph.graph import Graph


def _read(name: str, data: Path | None) -> Graph:
    """A data set by its name, whatever lies in the working directory; else a graph file."""
    from xtcl.graph.datasets import load_dataset
    from xtcl.graph.datasets.registry import DATASETS
    from xtcl.graph.graph import Graph

    if name.lower() in DATASETS:
        return load_dataset(name, data)
    path = Path(name)
    if path.suffix == ".npz" and path.is_file():
        return Graph.load(path)
    if path.exists():
        raise UsageError(
            f"'{name}' is not a graph file. Make one in Python: Graph.from_arrays(attributes, "
            "edges, labels).save('my-graph.npz'), then name that file."
        )
    if path.suffix == ".npz":
        raise UsageError(
            f"There is no file '{name}'; check the path, or name a data set (see `xtcl datasets`)."
        )
    return load_dataset(name, data)


def read_graph(name: str, data: Path | None, notes: Console) -> Graph:
    """The graph called `name`; what was repaired in it is said on `notes`."""
    graph = _read(name, data)
    for repair in graph.repairs.sentences():
        notes.print(repair, markup=False)
    return graph
