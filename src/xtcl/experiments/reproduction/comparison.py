"""Tables 1 and 2: every system on every data set, all on the same splits."""

from __future__ import annotations

from typing import ClassVar

from xtcl.baselines.registry import METHODS, make_method
from xtcl.experiments.evaluate import make_split, score_method
from xtcl.experiments.reproduction.experiment import (
    Bench,
    Experiment,
    Measurement,
    Plain,
    Scope,
    chosen,
    chosen_datasets,
)
from xtcl.experiments.reproduction.paper_tables import COLUMNS

ORDER = (
    "xtcl-gcn",
    "xtcl-gat",
    "dgi",
    "sugrl",
    "asp",
    "polygcl",
    "gcn",
    "gat",
    "dgcn",
    "meta-pn",
    "cocos",
    "subgraph",
    "sscl",
    "scl",
    "naive-tcl",
    "logistic",
    "propagation",
)
"""Ours, the paper's rows in its order, its contrastive losses, the controls."""

SPLITS = 5
QUICK_SPLITS = 2


class Comparison(Experiment):
    """Fits and scores each system on each split from seed 0."""

    task: ClassVar[str]

    def systems(self) -> list[str]:
        """The registered systems that know the task."""
        return [name for name in ORDER if name in METHODS and self.task in METHODS[name].tasks]

    def measurements(self, scope: Scope) -> list[Measurement]:
        """Split by split, so that a batch that is cut short has all systems on fewer splits."""
        splits = scope.splits or (QUICK_SPLITS if scope.quick else SPLITS)
        methods = chosen("method", scope.methods, self.systems())
        return [
            self.measurement(dataset, method, seed)
            for dataset in chosen_datasets(scope, COLUMNS)
            for seed in range(splits)
            for method in methods
        ]

    def measurement(self, dataset: str, method: str, seed: int) -> Measurement:
        """One system on one split."""

        def measure(bench: Bench) -> Plain:
            graph = bench.graph(dataset)
            figure, seconds = score_method(
                graph,
                make_split(graph, self.task, seed),
                make_method(method),
                seed=seed,
                device=bench.device,
                progress=bench.progress,
            )
            return {"figure": round(100 * figure, 4), "seconds": round(seconds, 3)}

        return Measurement({"dataset": dataset, "method": method, "seed": seed}, measure)


class NodeTable(Comparison):
    """Table 1."""

    name: ClassVar[str] = "table-nodes"
    title: ClassVar[str] = "Node classification, accuracy in percent"
    task: ClassVar[str] = "nodes"


class LinkTable(Comparison):
    """Table 2."""

    name: ClassVar[str] = "table-links"
    title: ClassVar[str] = "Link prediction, AUC in percent"
    task: ClassVar[str] = "links"
