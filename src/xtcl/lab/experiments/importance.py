"""Which relations matter, by data set and task, and how sure that is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np

from xtcl.lab.experiments.comparison import TABLE_DATASETS
from xtcl.lab.experiments.drawing import conditions
from xtcl.lab.experiments.experiment import (
    Context,
    Experiment,
    Plain,
    Record,
    Run,
    Selection,
    select_datasets,
    select_names,
)
from xtcl.model_selection.evaluation import make_split
from xtcl.relations.blocks import rows_per_block
from xtcl.relations.registry import relation_title
from xtcl.relations.rows import make_rows
from xtcl.relations.view import TrainingView
from xtcl.report.charts import DASH, PALETTE, page, picture, table
from xtcl.sampling.bootstrap import PERCENTILES, resampled_counts
from xtcl.sampling.counting import GroupCounts, count_groups
from xtcl.sampling.folds import Fold
from xtcl.sampling.patterns import num_patterns
from xtcl.sampling.weights import fit_weights
from xtcl.sampling.xgsampler import XGSampler
from xtcl.tasks import make_task
from xtcl.tasks.training_data import training_data

_TASKS = ("nodes", "links")


NUM_PARTS = 60
"""Groups of nodes, those of all folds together."""


NUM_RESAMPLES = 500


class Importance(Experiment):
    r"""max(\|w0\|, \|w1\|) of every relation, with bootstrap intervals.

    The pairs of one node hang together, so it is nodes that are resampled and not pairs: the nodes
    whose pairs are counted are dealt into 60 groups, groups are drawn with replacement, and the
    stumps are fitted again to the sum of their counts (Davison and Hinkley, "Bootstrap Methods and
    their Application", 1997, chapter 2). Candidates stay the same, so what the interval leaves out
    is that other candidates could have been labelled. Cost: one fit of the sampler; resamples take
    milliseconds each.
    """

    name: ClassVar[str] = "importance"
    title: ClassVar[str] = "Importance of the relations"

    def runs(self, selection: Selection) -> list[Run]:
        """One for each task and data set; quick: on Cora."""
        select_names("method", selection.methods, ("xgsampler",))
        return [
            self.run(dataset, task, seed)
            for seed in selection.seeds(1)
            for dataset in select_datasets(selection, TABLE_DATASETS)
            for task in _TASKS
        ]

    def run(self, dataset: str, task: str, seed: int) -> Run:
        """The weights of one split."""

        def measure(context: Context) -> Plain:
            graph = context.graph(dataset)
            side = training_data(graph, make_split(graph, task, seed))
            view = TrainingView.of(side.graph, side.labelled, context.device)
            known = make_task(task)
            recipe = known.recipe("gcn")
            folds = known.folds(view, recipe.crossfit, np.random.default_rng([seed, 0]))
            sampler = XGSampler(settings=recipe.sampler, seed=seed)
            return weights_with_intervals(sampler, view, folds, seed, context)

        return Run({"dataset": dataset, "task": task, "seed": seed}, measure)


def weights_with_intervals(
    sampler: XGSampler, view: TrainingView, folds: list[Fold], seed: int, context: Context
) -> Plain:
    """Weights, importance and its interval for every relation."""
    fitted = sampler.fit_folds(view, folds).relation_weights_
    names = [relation.name for relation in sampler.relations_]
    drawn: dict[str, list[float]] = {name: [] for name in names}
    for counts in resampled_counts(
        counts_by_part(sampler, folds, seed, context), NUM_RESAMPLES, seed
    ):
        for weight in fit_weights(names, sampler.settings_, counts).weights:
            drawn[weight.relation].append(weight.importance)
    return {
        weight.relation: {
            "w0": weight.w0,
            "w1": weight.w1,
            "importance": weight.importance,
            "interval": np.percentile(drawn[weight.relation], PERCENTILES).tolist(),
        }
        for weight in fitted
    }


def counts_by_part(
    sampler: XGSampler, folds: list[Fold], seed: int, context: Context
) -> GroupCounts:
    """Counts of patterns by group: a random part of the query nodes of one fold."""
    rng = np.random.default_rng([seed, 2])
    group = np.zeros(folds[0].view.num_nodes, dtype=np.int64)
    first, tables = 0, []
    with context.progress.stage("counting pairs", len(folds)) as advance:
        for fold in folds:
            rows = make_rows(sampler.relations_, fold.view, sampler.settings_.quantiles)
            parts = max(1, min(NUM_PARTS // len(folds), len(fold.queries)))
            for number, part in enumerate(np.array_split(rng.permutation(fold.queries), parts)):
                group[part] = first + number
            height = rows_per_block(rows.num_nodes, rows.device)
            tables.append(count_groups(fold, rows, height, group))
            first += parts
            advance(1)
    patterns = num_patterns(len(sampler.relations_), len(sampler.settings_.quantiles))
    return GroupCounts(sum(tables[1:], start=tables[0]), patterns)


def draw_importance(experiment: Importance, records: Sequence[Record], folder: Path) -> str:
    """Write the picture; the page, as Markdown."""
    seed = min(record.what["seed"] for record in records)
    first = [record for record in records if record.what["seed"] == seed]
    parts = [
        f"# {experiment.title}",
        "max(|w0|, |w1|) of the sampler's stumps, with the interval that 95 of 100 resamples of "
        "the labelled nodes fall into. Weights average 0 over the pairs, so a relation that says "
        "nothing has 0. Labels are no part of the training data for links: the label relations "
        "are not there, and Link says nothing, because what is to be told is hidden from it.",
    ]
    for task in _TASKS:
        shown = [record for record in first if record.what["task"] == task]
        if shown:
            parts += [f"## {task}", _table(shown)]
    _picture(experiment, first, folder)
    parts += [conditions(first), f"![{experiment.title}]({experiment.name}.svg)"]
    return page(parts)


def relations_of(records: Sequence[Record]) -> list[str]:
    """Every relation in the records, the most important on average first."""
    found: dict[str, list[float]] = {}
    for record in records:
        for name, weights in record.found.items():
            found.setdefault(name, []).append(weights["importance"])
    return sorted(found, key=lambda name: -float(np.mean(found[name])))


def _table(records: Sequence[Record]) -> str:
    def cell(record: Record, relation: str) -> str:
        weights = record.found.get(relation)
        if weights is None:
            return DASH
        low, high = weights["interval"]
        return f"{weights['importance']:.2f} ({low:.2f} to {high:.2f})"

    return table(
        ["", *(record.what["dataset"] for record in records)],
        [
            [relation_title(relation), *(cell(record, relation) for record in records)]
            for relation in relations_of(records)
        ],
    )


def _picture(experiment: Importance, records: Sequence[Record], folder: Path) -> None:
    """A panel for each task: bars by relation, one colour for each data set."""
    tasks = [task for task in _TASKS if any(record.what["task"] == task for record in records)]
    with picture(folder, experiment.name, 9.0, 0.6 + 3.4 * len(tasks)) as figure:
        for axes, task in zip(
            figure.subplots(len(tasks), 1, squeeze=False)[:, 0], tasks, strict=True
        ):
            shown = [record for record in records if record.what["task"] == task]
            relations = relations_of(shown)
            width = 0.8 / len(shown)
            for place, record in enumerate(shown):
                has = [number for number, name in enumerate(relations) if name in record.found]
                weights = [record.found[relations[number]] for number in has]
                height = np.array([weight["importance"] for weight in weights])
                low, high = np.array([weight["interval"] for weight in weights]).T
                axes.bar(
                    [number + (place - (len(shown) - 1) / 2) * width for number in has],
                    height,
                    width,
                    yerr=np.maximum([height - low, high - height], 0.0),
                    color=PALETTE[place % len(PALETTE)],
                    error_kw={"linewidth": 0.8},
                    label=record.what["dataset"],
                )
            axes.set_xticks(
                range(len(relations)),
                [relation_title(name) for name in relations],
                rotation=20,
                ha="right",
            )
            axes.set(ylabel="max(|w0|, |w1|)", title=task)
            axes.spines[["top", "right"]].set_visible(False)
            axes.legend(frameon=False, ncols=len(shown), fontsize=8)
