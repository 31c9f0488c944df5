"""Which relations matter, by data set and task, and how sure that is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

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
from xtcl.sampling.folds import Fold
from xtcl.sampling.patterns import GroupCounts, count_groups, num_patterns
from xtcl.sampling.weights import PERCENTILES, fit_weights, resampled_counts
from xtcl.sampling.xgsampler import XGSampler
from xtcl.tasks import make_task
from xtcl.tasks.training_data import training_data

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_TASKS = ("nodes", "links")

SAMPLERS = {"xtcl": "our sampler", "paper": "Algorithm 1 as printed"}
"""By the name that `XTCL(sampler=...)` knows, how pages and pictures call them."""


NUM_PARTS = 60
"""Groups of nodes, those of all folds together."""


NUM_RESAMPLES = 500


class Importance(Experiment):
    r"""max(\|w0\|, \|w1\|) of every relation, with bootstrap intervals.

    The pairs of one node are dependent, so nodes are resampled and not pairs. The nodes whose pairs
    are counted are assigned to 60 groups, groups are drawn with replacement, and the stumps are
    fitted again to the sum of their counts (Davison and Hinkley, "Bootstrap Methods and their
    Application", 1997, chapter 2). Candidates stay the same: the interval does not cover that other
    candidates could have been labelled. Cost: one fit of the sampler; resamples take milliseconds
    each.

    Twice: by our sampler, and by Algorithm 1 as printed (`SamplerConfig.paper()`), from 0 in one
    pass over all pairs of labelled nodes with no label hidden. The two need not agree.
    """

    name: ClassVar[str] = "importance"
    title: ClassVar[str] = "Importance of the relations"

    def runs(self, selection: Selection) -> list[Run]:
        """One for each task, sampler and data set; quick: on Cora."""
        select_names("method", selection.methods, ("xgsampler",))
        return [
            self.run(dataset, task, seed, sampler)
            for seed in selection.seeds(1)
            for dataset in select_datasets(selection, TABLE_DATASETS)
            for task in _TASKS
            for sampler in SAMPLERS
        ]

    def run(self, dataset: str, task: str, seed: int, sampler: str = "xtcl") -> Run:
        """The weights of one split."""

        def measure(context: Context) -> Plain:
            graph = context.graph(dataset)
            side = training_data(graph, make_split(graph, task, seed))
            view = TrainingView.of(side.graph, side.labelled, context.device)
            known = make_task(task)
            recipe = known.recipe("gcn")
            recipe = recipe.as_in_paper("gcn") if sampler == "paper" else recipe
            folds = known.folds(view, recipe.crossfit, np.random.default_rng([seed, 0]))
            unfitted = XGSampler(settings=recipe.sampler, random_state=seed)
            return weights_with_intervals(unfitted, view, folds, seed, context)

        # Runs of our sampler have the name that they had before there were others.
        by = {} if sampler == "xtcl" else {"sampler": sampler}
        return Run({"dataset": dataset, "task": task, "seed": seed, **by}, measure)


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
            rows = make_rows(
                sampler.relations_,
                fold.view,
                sampler.settings_.quantiles,
                rule=sampler.settings_.above_rule,
            )
            parts = max(1, min(NUM_PARTS // len(folds), len(fold.queries)))
            for number, part in enumerate(np.array_split(rng.permutation(fold.queries), parts)):
                group[part] = first + number
            height = rows_per_block(rows.num_nodes, rows.device)
            tables.append(count_groups(fold, rows, height, group))
            first += parts
            advance(1)
    patterns = num_patterns(len(sampler.relations_), len(sampler.settings_.quantiles))
    return GroupCounts(sum(tables[1:], start=tables[0]), patterns)


def sampler_of(record: Record) -> str:
    """Which sampler a run fitted; early records do not say, and are ours."""
    return str(record.what.get("sampler", "xtcl"))


def draw_importance(experiment: Importance, records: Sequence[Record], folder: Path) -> str:
    """Write the picture; the page, as Markdown."""
    seed = min(record.what["seed"] for record in records)
    first = [record for record in records if record.what["seed"] == seed]
    parts = [
        f"# {experiment.title}",
        "max(|w0|, |w1|) of the sampler's stumps, with the interval that 95 of 100 resamples of "
        "the labelled nodes fall into. Our sampler's weights average 0 over the pairs, so a "
        "relation that says nothing has 0. Algorithm 1 as printed starts from 0 and keeps the "
        "share of alike pairs in the weights: its first relation carries it, with a weight that a "
        "step from 0 keeps below 2. Labels are no part of the training data for links: the label "
        "relations are not there. By our sampler Link says nothing for links, because what is to "
        "be told is hidden from it; as printed nothing is hidden.",
    ]
    for task in _TASKS:
        shown = [record for record in first if record.what["task"] == task]
        if not shown:
            continue
        parts.append(f"## {task}")
        for sampler, title in SAMPLERS.items():
            made = [record for record in shown if sampler_of(record) == sampler]
            parts += [f"### {title[0].upper()}{title[1:]}", _table(made)] if made else []
        parts += _agreement(shown)
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


def _agreement(records: Sequence[Record]) -> list[str]:
    """Where the two samplers disagree about the order of the relations, by data set."""
    rows = []
    opposite: dict[tuple[str, str], list[str]] = {}
    for dataset in dict.fromkeys(record.what["dataset"] for record in records):
        of = {sampler_of(each): each for each in records if each.what["dataset"] == dataset}
        if set(of) != set(SAMPLERS):
            continue
        ours, printed = (relations_of([of[name]]) for name in SAMPLERS)
        rows.append([dataset, _placed(ours[0], printed), _placed(printed[0], ours)])
        for one, other, by in ((ours, printed, "xtcl"), (printed, ours, "paper")):
            if one[0] == other[-1]:
                weights = of[by].found[one[0]]
                larger = max(weights["w0"], weights["w1"], key=abs)
                opposite.setdefault((one[0], by), []).append(f"{dataset} ({larger:+.2f})")
    if not rows:
        return []
    head = ["", "first by our sampler (its place as printed)", "first as printed (its place here)"]
    sentences = [
        f"{relation_title(name)} is first by {SAMPLERS[by]} and last by "
        f"{next(title for rival, title in SAMPLERS.items() if rival != by)} on "
        f"{', '.join(places)}; in brackets its weight by the former."
        for (name, by), places in opposite.items()
    ]
    return ["Importance depends on the form of the sampler:", table(head, rows), *sentences]


def _placed(name: str, order: Sequence[str]) -> str:
    return f"{relation_title(name)} ({order.index(name) + 1} of {len(order)})"


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
    """A row for each task, a column for each sampler: bars by relation, a colour for a data set.

    Relations stand in the same order in both columns, that of the first.
    """
    tasks = [task for task in _TASKS if any(record.what["task"] == task for record in records)]
    samplers = [name for name in SAMPLERS if name in map(sampler_of, records)]
    size = 1.0 + 7.0 * len(samplers), 0.9 + 3.4 * len(tasks)
    with picture(folder, experiment.name, *size) as figure:
        panels = figure.subplots(len(tasks), len(samplers), squeeze=False)
        for row, task in zip(panels, tasks, strict=True):
            shown = [record for record in records if record.what["task"] == task]
            by = {name: [r for r in shown if sampler_of(r) == name] for name in samplers}
            relations = relations_of(next(filter(None, by.values())))
            for axes, name in zip(row, samplers, strict=True):
                _bars(axes, by[name], relations)
                axes.set(ylabel="max(|w0|, |w1|)", title=f"{task}: {SAMPLERS[name]}")
        first = max(panels.flat, key=lambda axes: len(axes.get_legend_handles_labels()[1]))
        handles, labels = first.get_legend_handles_labels()
        figure.legend(
            handles, labels, loc="outside upper center", frameon=False, ncols=max(len(labels), 1)
        )


def _bars(axes: Axes, records: Sequence[Record], relations: Sequence[str]) -> None:
    """The importances with their intervals; a data set has the same colour in every panel."""
    datasets = [name for name in TABLE_DATASETS if name in {r.what["dataset"] for r in records}]
    width = 0.8 / max(len(records), 1)
    for place, dataset in enumerate(datasets):
        (record,) = (each for each in records if each.what["dataset"] == dataset)
        has = [number for number, name in enumerate(relations) if name in record.found]
        weights = [record.found[relations[number]] for number in has]
        height = np.array([weight["importance"] for weight in weights])
        low, high = np.array([weight["interval"] for weight in weights]).T
        axes.bar(
            [number + (place - (len(datasets) - 1) / 2) * width for number in has],
            height,
            width,
            yerr=np.maximum([height - low, high - height], 0.0),
            color=PALETTE[TABLE_DATASETS.index(dataset) % len(PALETTE)],
            error_kw={"linewidth": 0.8},
            label=dataset,
        )
    axes.set_xticks(
        range(len(relations)),
        [relation_title(name) for name in relations],
        rotation=25,
        ha="right",
        rotation_mode="anchor",
    )
    axes.spines[["top", "right"]].set_visible(False)
