"""Whatever can be read as a graph, as a Graph."""

from __future__ import annotations

from typing import Any

from xtcl.errors import UsageError
from xtcl.graph.graph import Graph


def as_graph(graph: Any) -> Graph:
    """`graph` itself, or a Graph made from a PyG `Data` or a NetworkX graph.

    Of a NetworkX graph, the node attributes `x` and `label` are taken where they are there, as
    `Graph.to_networkx` writes them; for others, make the Graph with `Graph.from_networkx`.
    """
    if isinstance(graph, Graph):
        return graph
    homes = {kind.__module__.partition(".")[0] for kind in type(graph).__mro__}
    if "torch_geometric" in homes:
        return Graph.from_pyg(graph)
    if "networkx" in homes:
        named = {name for _, values in graph.nodes(data=True) for name in values}
        return Graph.from_networkx(
            graph,
            attributes=["x"] if "x" in named else None,
            label="label" if "label" in named else None,
        )
    raise UsageError(
        f"A {type(graph).__name__} is no graph: give an xtcl Graph, a PyG Data or a NetworkX graph."
    )
