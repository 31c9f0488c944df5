"""The table of data statistics."""

from __future__ import annotations

from typing import ClassVar

from xtcl.experiments.reproduction.experiment import (
    Bench,
    Experiment,
    Measurement,
    Plain,
    Scope,
    chosen,
    chosen_datasets,
)

DATASETS = ("cora", "citeseer", "pubmed", "photo", "computers")
PRINTED: dict[str, tuple[int, int, int, int]] = {
    "cora": (2708, 10556, 7, 1433),
    "citeseer": (3327, 9104, 6, 3703),
    "pubmed": (19717, 88648, 3, 500),
    "photo": (7650, 238162, 8, 745),
    "computers": (13752, 491722, 10, 767),
}
"""Nodes, edges in both directions, classes and attributes, as the paper prints them."""


class DatasetStatistics(Experiment):
    """Nodes, edges (both directions, as the paper counts them), classes, attributes."""

    name: ClassVar[str] = "datasets"
    title: ClassVar[str] = "Data statistics"

    def measurements(self, scope: Scope) -> list[Measurement]:
        """One for each data set; quick: Cora, which is always there."""
        chosen("method", scope.methods, ())
        return [self.measurement(dataset) for dataset in chosen_datasets(scope, DATASETS)]

    def measurement(self, dataset: str) -> Measurement:
        """Count."""

        def measure(bench: Bench) -> Plain:
            graph = bench.graph(dataset)
            return {
                "nodes": graph.num_nodes,
                "edges": 2 * graph.num_edges,
                "classes": graph.num_classes,
                "attributes": graph.num_attributes,
            }

        return Measurement({"dataset": dataset}, measure)
