"""Tables 1 and 2: every system on every data set, all on the same splits."""

from __future__ import annotations

from dataclasses import asdict
from typing import ClassVar

from xtcl.baselines.registry import METHODS, make_method
from xtcl.baselines.xtcl import XTCLMethod
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
from xtcl.graph.induced import around_the_hub
from xtcl.tasks.plain import plain

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
QUICK_NODES = 500
"""Of the data set, for a quick table: some systems take time that grows like the square of them."""


class Comparison(Experiment):
    """Fits and scores each system on each split."""

    task: ClassVar[str]

    def systems(self) -> list[str]:
        """The registered systems that know the task."""
        return [name for name in ORDER if self.task in METHODS[name].tasks]

    def measurements(self, scope: Scope) -> list[Measurement]:
        """Split by split, so that a batch that is cut short has all systems on fewer splits.

        Quick: on the part of a data set around its best linked node.
        """
        for method in scope.methods or ():
            if method in METHODS:
                make_method(method).check_task(self.task)
        methods = chosen("method", scope.methods, self.systems())
        return [
            self.measurement(dataset, method, seed, QUICK_NODES if scope.quick else None)
            for dataset in chosen_datasets(scope, COLUMNS)
            for seed in scope.seeds(SPLITS, QUICK_SPLITS)
            for method in methods
        ]

    def measurement(
        self, dataset: str, method: str, seed: int, nodes: int | None = None
    ) -> Measurement:
        """One system on one split, of the whole graph or of so many nodes."""

        def measure(bench: Bench) -> Plain:
            graph, system = bench.graph(dataset), make_method(method)
            graph = graph if nodes is None else around_the_hub(graph, nodes)
            figure, seconds = score_method(
                graph,
                make_split(graph, self.task, seed),
                system,
                seed=seed,
                device=bench.device,
                progress=bench.progress,
            )
            found = {"figure": round(100 * figure, 4), "seconds": round(seconds, 3)}
            recipe = system.recipe_for(self.task) if isinstance(system, XTCLMethod) else None
            return found if recipe is None else found | {"recipe": plain(asdict(recipe))}

        part = {} if nodes is None else {"nodes": nodes}
        what = {"dataset": dataset, **part, "method": method, "seed": seed}
        return Measurement(what, measure)


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
