"""The GRAPH argument."""

from __future__ import annotations

from pathlib import Path

from xtcl.errors import UsageError
from xtcl.graph.datasets import load_dataset
from xtcl.graph.graph import Graph


def read_graph(name: str, data: Path | None) -> Graph:
    """A data set by its name, or a graph file."""
    path = Path(name)
    if path.suffix == ".npz" and path.is_file():
        return Graph.load(path)
    if path.exists():
        raise UsageError(
            f"'{name}' is not a graph file. Make one in Python: Graph.from_arrays(attributes, "
            "edges, labels).save('my-graph.npz'), then name that file."
        )
    return load_dataset(name, data)
