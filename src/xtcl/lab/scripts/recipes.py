"""The recipes of nodes beside each other, on exploration splits.

    PYTHONPATH=src python -m xtcl.lab.scripts.recipes [--datasets cora,cora-noisy,...] [--splits 2]
        [--recipes 2026-11,hidden-labels,quick] [--device auto] [--data DIR] [--out results/recipes]

Splits are those from seed 1000 on: what they show may change a recipe. cora-noisy is Cora with as
many random links added as it has, and two-tasks the made graph of `hard-graphs`, without its second
kind of links. Each run is a record of recipes.jsonl, and a run that is there is not made again.
recipes.md has the means.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from xtcl.baselines.method import XTCLGCN
from xtcl.config import RECIPES
from xtcl.device import pick_device
from xtcl.graph.graph import Graph
from xtcl.graph.splits import NodeSplit
from xtcl.lab.experiments.any_graph import ANY_GRAPHS
from xtcl.lab.experiments.experiment import Context, Record, Run, run_missing
from xtcl.lab.experiments.hard_data import with_random_links
from xtcl.lab.experiments.hard_graphs import NOISY
from xtcl.lab.experiments.node_runs import measure_nodes
from xtcl.lab.experiments.records import RecordFile
from xtcl.lab.scripts.study import FIRST_EXPLORATION_SEED, names, run_options
from xtcl.model_selection.evaluation import make_split, standard_error
from xtcl.report.charts import page, table
from xtcl.tasks import make_task


def measured(dataset: str, recipe: str, seed: int) -> Run:
    """One recipe on one split."""

    def measure(context: Context) -> dict[str, object]:
        graph = _graph(dataset, seed, context)
        split = make_split(graph, "nodes", seed)
        assert isinstance(split, NodeSplit)  # noqa: S101 - that is what the task has
        method = XTCLGCN(make_task("nodes").named_recipe(recipe, "gcn"))
        return measure_nodes(method, graph, split, seed, context)

    return Run({"dataset": dataset, "recipe": recipe, "seed": seed}, measure)


def _graph(dataset: str, seed: int, context: Context) -> Graph:
    if dataset == NOISY:
        return with_random_links(context.graph("cora"), seed=seed)
    return context.graph(dataset)


def draw(records: Sequence[Record]) -> str:
    """The page: a row for each graph, a column for each recipe, and paired differences.

    Splits that one of the recipes lacks are left out.
    """
    graphs = dict.fromkeys(record.what["dataset"] for record in records)
    recipes = [name for name in RECIPES if name in {record.what["recipe"] for record in records}]
    rows = [row for graph in graphs if (row := _row(graph, recipes, records))]
    minus = [f"{name} minus {recipes[0]}" for name in recipes[1:]]
    heads = ["graph", "splits", *recipes, *minus, *(f"{name}, s" for name in recipes)]
    return page(
        [
            "# Recipes of nodes",
            f"Test accuracy in percent with 10 % of the labels, splits from seed "
            f"{FIRST_EXPLORATION_SEED}, and the mean seconds of a fit. Seconds are of runs beside "
            "other work.",
            table(heads, rows),
        ]
    )


def _row(graph: str, recipes: Sequence[str], records: Sequence[Record]) -> list[str]:
    of_recipe: list[dict[int, Record]] = [
        {
            record.what["seed"]: record
            for record in records
            if (record.what["dataset"], record.what["recipe"]) == (graph, recipe)
        }
        for recipe in recipes
    ]
    seeds = sorted(set.intersection(*map(set, of_recipe)))
    if not seeds:
        return []
    figures, seconds = (
        np.array([[runs[seed].found[name] for seed in seeds] for runs in of_recipe])
        for name in ("figure", "seconds")
    )
    return [
        graph,
        str(len(seeds)),
        *(f"{mean:.2f}" for mean in figures.mean(axis=1)),
        *(_gain(other - figures[0]) for other in figures[1:]),
        *(f"{mean:.0f}" for mean in seconds.mean(axis=1)),
    ]


def _gain(differences: np.ndarray) -> str:
    error = standard_error(differences.tolist())
    return f"{differences.mean():+.2f}" + ("" if error is None else f" ± {error:.2f}")


def main() -> None:
    """Make the runs that are missing, and draw the page."""
    parser = run_options(__doc__, ("nodes",), (*ANY_GRAPHS, NOISY))
    parser.add_argument("--splits", type=int, default=2)
    parser.add_argument("--recipes", type=names(RECIPES), default=list(RECIPES))
    parser.add_argument("--out", type=Path, default=Path("results/recipes"))
    chosen = parser.parse_args()
    runs = [
        measured(dataset, recipe, seed)
        for dataset in chosen.datasets
        for seed in range(FIRST_EXPLORATION_SEED, FIRST_EXPLORATION_SEED + chosen.splits)
        for recipe in chosen.recipes
    ]
    context = Context(
        pick_device(chosen.device), None if chosen.data is None else Path(chosen.data)
    )
    file = RecordFile(chosen.out / "recipes.jsonl")
    run_missing(runs, file, context, print)
    records = [Record(**each) for each in file.read().values()]
    (chosen.out / "recipes.md").write_text(draw(records), encoding="utf-8")


if __name__ == "__main__":
    main()
