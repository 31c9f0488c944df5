"""Data sets by name, and synthetic graphs."""

from __future__ import annotations

from xtcl.graph.datasets.load import DatasetInfo, describe_datasets, load_dataset
from xtcl.graph.datasets.synthetic import block_model, random_graph

__all__ = ["DatasetInfo", "block_model", "describe_datasets", "load_dataset", "random_graph"]
