"""The order of the packages: none imports from one to its right."""

from __future__ import annotations

import ast
from collections.abc import Iterator

LAYERS = [
    "errors renamed not_fitted files progress device distributed cuda_graphs code_digest",
    "graph",
    "datasets",
    "relations",
    "config",
    "sampling",
    "nn",
    "training",
    "tasks",
    "planning",
    "prepare",
    "report inference runs",
    "estimator",
    "integrations baselines",
    "model_selection",
    "lab",
    "cli __main__ __init__",
]
RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer.split()}


def imports(tree: ast.Module) -> Iterator[str]:
    """Modules of xtcl that are imported when the code runs, at the top or inside functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            node.body = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
