"""Memory plans, and that a fit stays within them."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from small_runs import small_graph, small_model, small_split

import xtcl
from xtcl.config import FIXED_RULES, QUICK
from xtcl.device import memory_there, parse_memory
from xtcl.errors import BudgetError
from xtcl.graph.datasets.load import load_dataset
from xtcl.model_selection.evaluation import make_split
from xtcl.planning.bytes import (
    EXPLORATION,
    GPU_EXPLORATION,
    PAIR_BYTES,
    SMALLEST_BLOCK,
    preparing_bytes,
    store_bytes,
    usual_rows,
)
from xtcl.planning.memory_plan import INTERPRETER, NO_LIMIT, plan_fit, plan_stages
from xtcl.planning.sizes import Sizes
from xtcl.prepare import prepare
from xtcl.relations.store.relation_store import RelationStore
from xtcl.tasks import make_task
from xtcl.tasks.fit_options import FitOptions
from xtcl.tasks.sampled_positives import sample_positives
from xtcl.tasks.training_data import training_data

GB = 2**30


DATA_SETS = {
    "cora": (2708, 5278, 1433, 7),
    "citeseer": (3327, 4552, 3703, 6),
    "photo": (7650, 119_081, 745, 8),
    "computers": (13_752, 245_861, 767, 10),
    "pubmed": (19_717, 44_324, 500, 3),
}


def work(
    nodes: int,
    edges: int,
    attributes: int,
    classes: int = 8,
    *,
    task: str = "nodes",
    encoder: str = "gcn",
    cap: int | None = None,
    name: str | None = None,
) -> Sizes:
    known = make_task(task)
    recipe = known.named_recipe(name, encoder) if name else known.recipe(encoder)
    recipe = replace(recipe, sampler=replace(recipe.sampler, cap=cap))
    labelled = nodes // 10 if task == "nodes" else 0
    stored = 4 * nodes * attributes
    sizes = (nodes, edges, attributes, stored, classes, labelled)
    return Sizes("planned", task, *sizes, recipe, encoder)


LARGE = work(100_000, 1_000_000, 128, cap=32)


@pytest.mark.parametrize("task", ["nodes", "links"])
@pytest.mark.parametrize("name", DATA_SETS)
def test_the_data_sets_train_over_the_whole_graph(name: str, task: str) -> None:
    known = work(*DATA_SETS[name], task=task)
    plan = plan_stages(known, 4 * GB)
    assert plan.recipe == known.config
    assert plan.relations_kept
    assert plan.block_rows == usual_rows(known)
    assert plan.peak <= 4 * GB


def test_without_a_budget_a_share_of_what_is_there_counts() -> None:
    known = work(*DATA_SETS["cora"])
    if memory_there("cpu") > 4 * GB:
        assert plan_fit(known, None) == plan_stages(known, NO_LIMIT)


@pytest.mark.parametrize("encoder", ["gcn", "gat"])
@pytest.mark.parametrize("name", [QUICK, FIXED_RULES])
def test_mini_batches_come_in_where_a_full_pass_has_no_room(name: str, encoder: str) -> None:
    large = work(100_000, 1_000_000, 128, cap=32, encoder=encoder, name=name)
    whole = plan_stages(large, NO_LIMIT)
    assert not whole.mini_batches
    assert not whole.notes
    budget = 3 * GB if name == FIXED_RULES else int(3.4 * GB)
    plan = plan_fit(large, budget)
    assert plan.peak <= budget < whole.peak
    assert plan.mini_batches
    assert not plan.relations_kept
    members = plan.recipe.ensembles[0].encoders
    batched = [member.training.batch.neighbours is not None for member in members]
    assert all(batched)
    assert "mini-batches" in plan.notes[0]
    assert f"{budget / GB:.1f} GB are allowed" in plan.notes[0]


def test_the_trees_of_the_default_take_more_than_a_full_pass() -> None:
    """So mini-batches would not help it: a smaller budget is refused, with the stage to blame."""
    large = work(100_000, 1_000_000, 128, cap=32)
    whole = plan_stages(large, NO_LIMIT)
    assert max(whole.stages, key=lambda stage: stage.peak).name == "head"
    with pytest.raises(BudgetError, match="fitting the head"):
        plan_fit(large, int(3.5 * GB))


def test_equal_work_gets_equal_plans_and_less_memory_never_more() -> None:
    least = int(4.1 * GB)
    assert plan_fit(LARGE, least) == plan_fit(replace(LARGE), least)
    peaks = [plan_stages(LARGE, budget).peak for budget in (least, 4 * GB, 8 * GB, NO_LIMIT)]
    assert peaks == sorted(peaks)


@pytest.mark.parametrize("rows", [SMALLEST_BLOCK, 100, 850])
def test_blocks_fill_what_the_rest_leaves(rows: int) -> None:
    known = work(20_000, 40_000, 2)
    known = replace(
        known, config=known.config.map_encoders(lambda m: replace(m, encoder={"width": 8}))
    )
    row = PAIR_BYTES * known.nodes
    smallest = plan_stages(known, 0)
    positives = next(stage for stage in smallest.stages if stage.name == "positives")
    budget = positives.peak + (rows - SMALLEST_BLOCK) * row
    assert plan_stages(known, budget).block_rows == min(rows, usual_rows(known))
    assert plan_stages(known, budget + row - 1).block_rows == min(rows, usual_rows(known))


def test_too_little_is_refused_with_the_numbers() -> None:
    exact = work(200_000, 400_000, 16)
    few = replace(
        exact, config=exact.config.map_encoders(lambda m: replace(m, encoder={"width": 16}))
    )
    least = plan_stages(few, 0).peak
    assert plan_fit(few, least).block_rows == SMALLEST_BLOCK
    with pytest.raises(
        BudgetError, match=r"'planned' needs about .* GB and the budget is"
    ) as refused:
        plan_fit(few, least - 2**20)
    assert refused.value.exit_code == 4
    with pytest.raises(BudgetError, match="Allow more memory, or use fewer attributes"):
        plan_fit(few, INTERPRETER)


def test_top_k_mode_is_named_where_it_would_fit() -> None:
    exact = work(400_000, 800_000, 4)
    narrow = replace(
        exact, config=exact.config.map_encoders(lambda m: replace(m, encoder={"width": 8}))
    )
    capped = replace(
        narrow, config=replace(narrow.config, sampler=replace(narrow.config.sampler, cap=32))
    )
    least, listed = plan_stages(narrow, 0).peak, plan_stages(capped, 0).peak
    assert listed < least
    with pytest.raises(BudgetError, match=r"with --cap 32 it needs about \d"):
        plan_fit(narrow, (least + listed) // 2)


def test_a_planned_recipe_is_what_the_run_says_and_resumes_by(tmp_path: Path) -> None:
    graph = small_graph(400)
    split = small_split(graph, "nodes")
    free = small_model(width=256, epochs=2, recipe=FIXED_RULES)
    least = _tight()
    model, roomy = (
        small_model(width=256, epochs=2, recipe=FIXED_RULES, memory=each) for each in (least, "4GB")
    )
    tight, wide = (each.memory_plan(graph, split) for each in (model, roomy))
    assert tight.mini_batches
    assert not wide.mini_batches
    same = prepare(model, graph, split).identity
    assert (
        same
        == prepare(
            small_model(width=256, epochs=2, recipe=FIXED_RULES, memory=least), graph, split
        ).identity
    )
    assert same != prepare(free, graph, split).identity == prepare(roomy, graph, split).identity
    with pytest.warns(UserWarning, match="Training goes in mini-batches") as warned:
        model.fit(graph, split).save(tmp_path)
    assert [str(each.message) for each in warned] == list(tight.notes)
    assert model.recipe_ == tight.recipe
    stored = tomllib.loads((tmp_path / "config.toml").read_text())
    members = stored["recipe"]["ensembles"][0]["encoders"]
    planned = [member.training.batch.neighbours for member in tight.recipe.ensembles[0].encoders]
    assert [member["training"]["batch"]["neighbours"] for member in members] == [
        list(neighbours or ()) for neighbours in planned
    ]
    assert planned[1]
    assert stored["memory"]["block_rows"] == tight.block_rows
    assert np.isfinite(model.embedding_).all()


def _tight() -> int:
    """A budget for small_graph(400) at width 256 that a full pass does not fit, but the rest."""
    graph = small_graph(400)
    split = small_split(graph, "nodes")
    low, high = INTERPRETER, 2 * GB
    while high - low > 1000:
        middle = (low + high) // 2
        try:
            small_model(width=256, epochs=2, recipe=FIXED_RULES, memory=middle).memory_plan(
                graph, split
            )
        except BudgetError:
            low = middle
        else:
            high = middle
    return high


@pytest.mark.slow
@pytest.mark.parametrize("cap", [None, 8, 32])
def test_the_store_takes_what_was_planned(cap: int | None, tmp_path: Path) -> None:
    graph = load_dataset("cora")
    side = training_data(graph, make_split(graph, "nodes", 0))
    task = make_task("nodes")
    recipe = task.recipe("gcn")
    recipe = replace(recipe, sampler=replace(recipe.sampler, cap=cap))
    sample_positives(side.graph, task, recipe, FitOptions(store=RelationStore(tmp_path)))
    taken = sum(path.stat().st_size for path in tmp_path.iterdir())
    refused = store_bytes(Sizes.of(side, "nodes", recipe, store=True))
    assert taken / 2 < refused < 2 * taken
    assert store_bytes(Sizes.of(side, "nodes", recipe)) == 0


def test_a_gpu_lists_more_at_a_time() -> None:
    here, there = (preparing_bytes(replace(LARGE, device=device)) for device in ("cpu", "cuda"))
    assert there - here == GPU_EXPLORATION - EXPLORATION
    exact = work(1000, 5000, 16)
    assert preparing_bytes(exact) == preparing_bytes(replace(exact, device="cuda"))


# A large fit keeps its budget: the system gives it no more.

SIZES = [
    # One array of all pairs would take 576 MB, more than libraries leave of the budget.
    (12_000, 8, 8, "1000MB"),
    # Exact mode: nearly all pairs share neighbours, and are listed while topology computes them.
    (2_000, 60, 0, "800MB"),
    pytest.param(100_000, 8, 8, "3GB", marks=pytest.mark.large),
]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(("nodes", "degree", "cap", "memory"), SIZES)
def test_within_an_address_space_of_the_budget(
    nodes: int, degree: int, cap: int, memory: str
) -> None:
    script = Path(__file__).parents[1] / "helpers" / "limited_process.py"
    found = subprocess.run(  # noqa: S603
        [sys.executable, str(script), *map(str, (nodes, degree, cap)), memory],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ
        | {"PYTHONPATH": str(Path(xtcl.__file__).parents[1]), "OMP_NUM_THREADS": "1"},
    )
    assert found.returncode == 0, found.stderr
    assert int(found.stdout) <= parse_memory(memory)
