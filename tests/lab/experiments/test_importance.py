"""Importance of relations, its intervals and its page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from pattern_tables import count_patterns
from small_runs import small_graph

from xtcl.lab.experiments import draw_experiment
from xtcl.lab.experiments import importance as module
from xtcl.lab.experiments.experiment import Context, Record, Selection
from xtcl.lab.experiments.importance import (
    NUM_PARTS,
    SAMPLERS,
    Importance,
    counts_by_part,
    relations_of,
)
from xtcl.model_selection.evaluation import make_split
from xtcl.relations.rows import DenseRows
from xtcl.relations.view import TrainingView
from xtcl.report.charts import DASH
from xtcl.sampling.folds import Fold
from xtcl.sampling.patterns import GroupCounts, PatternCounts
from xtcl.sampling.weights import resampled_counts
from xtcl.sampling.xgsampler import XGSampler
from xtcl.tasks import make_task
from xtcl.tasks.fit_options import FitOptions
from xtcl.tasks.sampled_positives import fit_sampler
from xtcl.tasks.training_data import training_data

CPU = torch.device("cpu")


GRAPH = small_graph(300)


def bench() -> Context:
    return Context(CPU, _graphs={"cora": GRAPH})


@pytest.mark.slow
@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("task", ["nodes", "links"])
def test_weights_are_those_of_a_fit_and_lie_in_their_intervals(
    task: str, sampler: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "NUM_RESAMPLES", 60)
    found = Importance().run("cora", task, 2, sampler).measure(bench())
    known = make_task(task)
    side = training_data(GRAPH, make_split(GRAPH, task, 2))
    recipe = known.recipe("gcn")
    if sampler == "paper":
        recipe = recipe.as_in_paper("gcn")
    fitted = fit_sampler(side.graph, known, recipe, FitOptions(seed=2))
    assert list(found) == [weight.relation for weight in fitted.relation_weights_]
    for weight in fitted.relation_weights_:
        relation = found[weight.relation]
        assert (relation["w0"], relation["w1"]) == (weight.w0, weight.w1)
        assert relation["importance"] == max(abs(weight.w0), abs(weight.w1))
        low, high = relation["interval"]
        assert 0 <= low <= high < 50
    inside = [r["interval"][0] <= r["importance"] <= r["interval"][1] for r in found.values()]
    assert np.mean(inside) > 0.7  # the importance of a weak relation is biased upwards
    again = Importance().run("cora", task, 2, sampler).measure(bench())
    assert again == found


@pytest.mark.slow
def test_groups_add_up_to_the_counts_of_the_fit() -> None:
    known = make_task("nodes")
    side = training_data(GRAPH, make_split(GRAPH, "nodes", 0))
    view = TrainingView.of(side.graph, side.labelled, CPU)
    folds = known.folds(view, 5, np.random.default_rng(0))
    sampler = XGSampler().fit_folds(view, folds)
    codes, counts = counts_by_part(sampler, folds, 0, bench()).by_group()
    assert 5 <= len(counts) <= NUM_PARTS
    whole = PatternCounts(codes, counts.sum(axis=0))
    np.testing.assert_array_equal(whole.codes, sampler.counts_.codes)
    np.testing.assert_array_equal(whole.counts, sampler.counts_.counts)


@pytest.mark.slow
@pytest.mark.parametrize("task", ["nodes", "links"])
def test_groups_and_draws_are_those_of_the_published_intervals(task: str) -> None:
    known = make_task(task)
    side = training_data(GRAPH, make_split(GRAPH, task, 0))
    view = TrainingView.of(side.graph, side.labelled, CPU)
    recipe = known.recipe("gcn")
    folds = known.folds(view, recipe.crossfit, np.random.default_rng([3, 0]))
    sampler = XGSampler(settings=recipe.sampler, random_state=3).fit_folds(view, folds)

    rng = np.random.default_rng([3, 2])
    tables = []
    for fold in folds:
        rows = DenseRows(sampler.relations_, fold.view, sampler.settings_.quantiles)
        parts = max(1, min(60 // len(folds), len(fold.queries)))
        tables += [
            count_patterns(replace(fold, queries=np.sort(part)), rows, 64)
            for part in np.array_split(rng.permutation(fold.queries), parts)
        ]
    codes = np.unique(np.concatenate([table.codes for table in tables]))
    expected = np.zeros((len(tables), len(codes), 2), dtype=np.int64)
    for number, table in enumerate(tables):
        expected[number, np.searchsorted(codes, table.codes)] = table.counts
    groups = counts_by_part(sampler, folds, 3, bench())
    np.testing.assert_array_equal(groups.by_group()[0], codes)
    np.testing.assert_array_equal(groups.by_group()[1], expected)

    rng = np.random.default_rng([3, 1])
    times = rng.multinomial(len(expected), np.full(len(expected), 1 / len(expected)), 500)
    drawn = resampled_counts(groups, 500, 3)
    for share, found in zip(times, drawn, strict=True):
        np.testing.assert_array_equal(found.counts, np.tensordot(share, expected, axes=1))


@pytest.mark.slow
def test_groups_that_are_alike_leave_nothing_to_chance(monkeypatch: pytest.MonkeyPatch) -> None:
    def alike(sampler: XGSampler, folds: list[Fold], seed: int, context: Context) -> GroupCounts:
        counts = sampler.counts_
        whole = PatternCounts(counts.codes, 7 * counts.counts)
        again = XGSampler(settings=sampler.settings).restore(sampler.view_, whole)
        for weight in again.relation_weights_:
            expected[weight.relation] = weight.importance
        patterns = int(counts.codes.max()) + 1
        codes = np.concatenate([group * patterns + counts.codes for group in range(7)])
        return GroupCounts(PatternCounts(codes, np.tile(counts.counts, (7, 1))), patterns)

    expected: dict[str, float] = {}
    monkeypatch.setattr(module, "counts_by_part", alike)
    found = Importance().run("cora", "nodes", 0).measure(bench())
    for name, relation in found.items():
        assert relation["interval"] == pytest.approx([expected[name]] * 2)


@pytest.mark.slow
def test_scope() -> None:
    runs = Importance().runs(Selection())
    assert len(runs) == 20
    assert len({run.key for run in runs}) == 20
    quick = Importance().runs(Selection(quick=True))
    assert [run.key for run in quick] == [
        "cora-nodes-0",
        "cora-nodes-0-paper",
        "cora-links-0",
        "cora-links-0-paper",
    ]


# The page of the importances, from records made by hand.


def weight(importance: float) -> dict[str, object]:
    interval = [importance - 0.25, importance + 0.5]
    return {"w0": -0.1, "w1": importance, "importance": importance, "interval": interval}


def record(dataset: str, task: str, **importances: float) -> Record:
    found = {name.replace("_", "-"): weight(value) for name, value in importances.items()}
    return Record({"dataset": dataset, "task": task, "seed": 0}, found, 1.0, {}, {})


RECORDS = [
    record("cora", "nodes", link=2.0, jaccard=1.0, attribute_label_distribution=4.0),
    record("photo", "nodes", link=1.0, jaccard=3.5),
    record("cora", "links", jaccard=0.5),
]


def test_the_page_has_a_table_for_each_task(tmp_path: Path) -> None:
    page = draw_experiment(Importance(), RECORDS, tmp_path).read_text()
    nodes, links = page.split("## links")
    assert "| Link | 2.00 (1.75 to 2.50) | 1.00 (0.75 to 1.50) |" in nodes
    assert f"| Attr. Label Dist. | 4.00 (3.75 to 4.50) | {DASH} |" in nodes
    assert "| Jaccard Sim. | 0.50 (0.25 to 1.00) |" in links
    assert "Link |" not in links
    assert (tmp_path / "importance.png").exists()


def test_the_most_important_comes_first() -> None:
    assert relations_of(RECORDS[:2]) == ["attribute-label-distribution", "jaccard", "link"]


def printed(record: Record) -> Record:
    return replace(record, what=record.what | {"sampler": "paper"})


def test_the_page_says_where_the_two_samplers_disagree(tmp_path: Path) -> None:
    other = printed(record("cora", "nodes", link=3.0, jaccard=5.0, attribute_label_distribution=1))
    page = draw_experiment(Importance(), [*RECORDS, other], tmp_path).read_text()
    ours, as_printed = page.split("## links")[0].split("### Algorithm 1 as printed")
    assert "| Link | 2.00 (1.75 to 2.50) | 1.00 (0.75 to 1.50) |" in ours
    assert "| Link | 3.00 (2.75 to 3.50) |" in as_printed
    assert "| cora | Attr. Label Dist. (3 of 3) | Jaccard Sim. (3 of 3) |" in as_printed
    sentence = (
        "Jaccard Sim. is first by Algorithm 1 as printed and last by our sampler on cora (+5.00)"
    )
    assert sentence in as_printed
    assert "| photo | Attr" not in as_printed  # it has no run of the printed algorithm


def test_records_of_one_sampler_alone_are_drawn(tmp_path: Path) -> None:
    for name, records in (("ours", RECORDS), ("printed", [printed(each) for each in RECORDS])):
        page = draw_experiment(Importance(), records, tmp_path / name).read_text()
        assert "depends on the form" not in page
        assert "| Jaccard Sim. | 0.50 (0.25 to 1.00) |" in page
