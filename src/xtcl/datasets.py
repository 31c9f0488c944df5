"""Graphs to try things on: known data sets, and generated ones."""

from __future__ import annotations

from xtcl.graph.datasets import block_model, load_dataset, random_graph

__all__ = ["block_model", "load_dataset", "random_graph"]
