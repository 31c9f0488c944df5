"""Seconds on a GPU: within a factor of two of what an H200 took, stage by stage."""

from __future__ import annotations

from dataclasses import replace

import pytest

from xtcl.planning.memory_plan import NO_LIMIT, MemoryPlan, plan_stages
from xtcl.planning.seconds import FIRST_FIT, predicted_seconds
from xtcl.planning.sizes import Sizes
from xtcl.tasks import make_task

SIZES = {
    "cora": (2708, 5278, 1433, 7),
    "citeseer": (3327, 4552, 3703, 6),
    "photo": (7650, 119_081, 745, 8),
    "computers": (13_752, 245_861, 767, 10),
    "pubmed": (19_717, 44_324, 500, 3),
}
TRAINING_LINKS = 0.6

STAGES = {
    ("pubmed", "nodes"): (0.20, 0.26, 0.13 + 0.41, 0.42),
    ("computers", "nodes"): (0.22, 0.27, 0.09 + 0.30, 1.0),
    ("cora", "links"): (0.14 + 0.13, 0.02 + 0.02, 0.05 + 0.09 + 0.05, 0.34),
    ("pubmed", "links"): (0.28 + 0.35, 0.23 + 0.25, 0.10 + 0.52 + 0.48, 0.6),
    ("computers", "links"): (0.57 + 0.59, 0.25 + 0.26, 0.10 + 0.49 + 0.42, 1.3),
}
"""Seconds of relations, positives, training, and of embedding and head together."""

FITS = {"cora": 0.49, "citeseer": 0.55, "pubmed": 1.58, "computers": 1.98, "photo": 1.09}
"""Seconds of whole fits for nodes."""

MILLION = (46.0, 47.0, 22.0, 9.0)
"""The same stages of a million nodes with ten million links in top-k mode."""


def work(name: str, task: str, device: str = "cuda", encoder: str = "gcn") -> Sizes:
    nodes, edges, attributes, classes = SIZES[name]
    edges = edges if task == "nodes" else round(TRAINING_LINKS * edges)
    labelled = nodes // 10 if task == "nodes" else 0
    sizes = (nodes, edges, attributes, 4 * nodes * attributes, classes, labelled)
    return Sizes(name, task, *sizes, make_task(task).recipe(encoder), encoder, device)


def million(index_past: int | None = None) -> Sizes:
    recipe = make_task("nodes").recipe("gcn")
    recipe = replace(recipe, sampler=replace(recipe.sampler, cap=32, index_past=index_past))
    sizes = (10**6, 10**7, 128, 4 * 128 * 10**6, 8, 10**5)
    return Sizes("million", "nodes", *sizes, recipe, "gcn", "cuda")


def stages(plan: MemoryPlan) -> list[float]:
    """Seconds of relations, positives, training, and of the rest."""
    seconds = [float(stage.seconds or 0) for stage in plan.stages]
    return [*seconds[:3], sum(seconds[3:])]


def is_near(told: float, taken: float) -> bool:
    return taken / 2 <= told <= 2 * taken


@pytest.mark.parametrize(("name", "task"), STAGES)
def test_every_stage_in_exact_mode(name: str, task: str) -> None:
    told = stages(plan_stages(work(name, task), NO_LIMIT))
    for stage, taken in zip(told, STAGES[name, task], strict=True):
        assert is_near(stage, taken)


@pytest.mark.parametrize("name", FITS)
def test_whole_fits(name: str) -> None:
    plan = plan_stages(work(name, "nodes"), NO_LIMIT)
    assert plan.seconds is not None
    assert is_near(plan.seconds, FITS[name])
    assert plan.first_fit == FIRST_FIT


def test_every_stage_of_a_million_nodes_in_top_k_mode() -> None:
    for stage, taken in zip(stages(plan_stages(million(), NO_LIMIT)), MILLION, strict=True):
        assert is_near(stage, taken)


def test_an_index_was_not_measured_beside_a_gpu() -> None:
    plan = plan_stages(million(index_past=50_000), NO_LIMIT)
    assert [stage.name for stage in plan.stages if stage.seconds is None] == [
        "relations",
        "positives",
    ]
    assert plan.seconds is None
    assert plan_stages(million(index_past=10**6), NO_LIMIT) != plan


def test_one_gpu_is_like_another_and_a_cpu_needs_no_start() -> None:
    known = work("cora", "nodes")
    assert predicted_seconds(known) == predicted_seconds(replace(known, device="cuda:1"))
    assert plan_stages(work("cora", "nodes", "cpu"), NO_LIMIT).first_fit == 0


def test_steps_that_are_not_replayed_wait_for_the_cpu() -> None:
    gcn, gat = (
        stages(plan_stages(work("cora", "nodes", encoder=each), NO_LIMIT))[2]
        for each in ("gcn", "gat")
    )
    assert gat > 2 * gcn
