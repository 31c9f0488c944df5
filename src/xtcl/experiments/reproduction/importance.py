"""Which relations matter, by data set and task, and how sure that is."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np

from xtcl.experiments.evaluate import make_split
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
from xtcl.relations.block_height import block_height
from xtcl.relations.pattern_rows import PatternRows
from xtcl.relations.view import TrainingView
from xtcl.sampling.counting import count_patterns
from xtcl.sampling.fold import Fold
from xtcl.sampling.patterns import PatternCounts
from xtcl.sampling.xgsampler import XGSampler
from xtcl.tasks.registry import make_task
from xtcl.tasks.training_side import training_side

TASKS = ("nodes", "links")
GROUPS = 60
RESAMPLES = 500
INTERVAL = (2.5, 97.5)
"""Percentiles: 95 of 100 resamples lie between them."""


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

    def measurements(self, scope: Scope) -> list[Measurement]:
        """One for each task and data set; quick: on Cora."""
        chosen("method", scope.methods, ("xgsampler",))
        return [
            self.measurement(dataset, task, seed)
            for seed in scope.seeds(1)
            for dataset in chosen_datasets(scope, COLUMNS)
            for task in TASKS
        ]

    def measurement(self, dataset: str, task: str, seed: int) -> Measurement:
        """The weights of one split."""

        def measure(bench: Bench) -> Plain:
            graph = bench.graph(dataset)
            side = training_side(graph, make_split(graph, task, seed))
            view = TrainingView.of(side.graph, side.labelled, bench.device)
            known = make_task(task)
            recipe = known.recipe("gcn")
            folds = known.folds(view, recipe.crossfit, np.random.default_rng([seed, 0]))
            sampler = XGSampler(settings=recipe.sampler, seed=seed)
            return resampled(sampler, view, folds, seed, bench)

        return Measurement({"dataset": dataset, "task": task, "seed": seed}, measure)


def resampled(
    sampler: XGSampler, view: TrainingView, folds: list[Fold], seed: int, bench: Bench
) -> Plain:
    """Weights, importance and its interval for every relation."""
    sampler.fit(view, folds)
    codes, counts = group_counts(sampler, folds, seed, bench)
    fitted = sampler.relation_weights_
    rng = np.random.default_rng([seed, 1])
    times = rng.multinomial(len(counts), np.full(len(counts), 1 / len(counts)), RESAMPLES)
    drawn: dict[str, list[float]] = {weight.relation: [] for weight in fitted}
    for share in times:
        again = np.tensordot(share, counts, axes=1)
        for weight in sampler.restore(view, PatternCounts(codes, again)).relation_weights_:
            drawn[weight.relation].append(weight.importance)
    return {
        weight.relation: {
            "w0": weight.w0,
            "w1": weight.w1,
            "importance": weight.importance,
            "interval": np.percentile(drawn[weight.relation], INTERVAL).tolist(),
        }
        for weight in fitted
    }


def group_counts(
    sampler: XGSampler, folds: list[Fold], seed: int, bench: Bench
) -> tuple[np.ndarray, np.ndarray]:
    """Pattern codes [P] and their counts [groups, P, 2], the nodes dealt into groups at random."""
    rng = np.random.default_rng([seed, 2])
    tables = []
    with bench.progress.stage("counting pairs", len(folds)) as advance:
        for fold in folds:
            rows = PatternRows(sampler.relations_, fold.view, sampler.settings.quantiles)
            groups = max(1, min(GROUPS // len(folds), len(fold.queries)))
            for part in np.array_split(rng.permutation(fold.queries), groups):
                own = replace(fold, queries=np.sort(part))
                tables.append(count_patterns(own, rows, block_height(rows.num_nodes, rows.device)))
            advance(1)
    codes = np.unique(np.concatenate([table.codes for table in tables]))
    counts = np.zeros((len(tables), len(codes), 2), dtype=np.int64)
    for group, table in enumerate(tables):
        counts[group, np.searchsorted(codes, table.codes)] = table.counts
    return codes, counts
