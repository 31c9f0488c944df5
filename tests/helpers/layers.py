"""The order of the packages: none imports from one to its right."""

from __future__ import annotations

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
