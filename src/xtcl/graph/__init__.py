"""The graph: one validated object, its splits, and the ways into and out of it."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from xtcl.graph.convert import as_graph
    from xtcl.graph.datasets.load import load_dataset
    from xtcl.graph.datasets.synthetic import block_model, random_graph
    from xtcl.graph.graph import Graph
    from xtcl.graph.splits import LinkSplit, NodeSplit, check_no_leak, link_split, node_split
    from xtcl.graph.tables.read import read_tables

_HOMES = {
    "Graph": "xtcl.graph.graph",
    "LinkSplit": "xtcl.graph.splits",
    "NodeSplit": "xtcl.graph.splits",
    "as_graph": "xtcl.graph.convert",
    "block_model": "xtcl.graph.datasets.synthetic",
    "check_no_leak": "xtcl.graph.splits",
    "link_split": "xtcl.graph.splits",
    "load_dataset": "xtcl.graph.datasets.load",
    "node_split": "xtcl.graph.splits",
    "random_graph": "xtcl.graph.datasets.synthetic",
    "read_tables": "xtcl.graph.tables.read",
}

__all__ = [
    "Graph",
    "LinkSplit",
    "NodeSplit",
    "as_graph",
    "block_model",
    "check_no_leak",
    "link_split",
    "load_dataset",
    "node_split",
    "random_graph",
    "read_tables",
]


def __getattr__(name: str) -> Any:
    """Import a name on first use, so that a graph alone needs neither PyG nor pyarrow."""
    if name not in _HOMES:
        raise AttributeError(f"module 'xtcl.graph' has no attribute '{name}'")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
