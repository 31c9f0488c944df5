"""The memory that a fit may take, and the plan that keeps it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from xtcl.config import EncoderConfig, EnsembleConfig, FitConfig
from xtcl.device import DRIVER_BYTES, memory_there
from xtcl.errors import BudgetError
from xtcl.graph.graph import Graph
from xtcl.planning.bytes import (
    found_bytes,
    graph_bytes,
    head_bytes,
    joining_bytes,
    kept_bytes,
    preparing_bytes,
    row_bytes,
    smallest_rows,
    store_bytes,
    usual_rows,
)
from xtcl.planning.sizes import LINKS_TASK, Sizes
from xtcl.planning.training_bytes import (
    FLOAT,
    data_bytes,
    embedding_bytes,
    encoder_of,
    fit_batch,
    step_bytes,
)
from xtcl.tasks import TrainingData, make_task

_DEFAULT_SHARE = 0.8
"""Share of all memory that a fit without a budget may take."""


_SUGGESTED_CAP = 32
"""The cap that a refusal suggests where exact mode does not fit."""


NO_LIMIT = 2**62


_GB = 2**30


def plan_fit(sizes: Sizes, budget: int | None) -> MemoryPlan:
    """The plan of a fit within `budget` bytes; raises BudgetError where none fits.

    The default budget is a share of all memory, free or not, so that a machine always plans the
    same. With the default a fit that needs more is not refused.
    """
    allowed = int(_DEFAULT_SHARE * memory_there(sizes.device)) if budget is None else budget
    plan = plan_stages(sizes, allowed)
    if budget is not None and plan.peak > budget:
        raise BudgetError(_refusal(sizes, plan, budget))
    if not plan.mini_batches:
        return plan
    whole = plan_stages(sizes, NO_LIMIT)
    step = next(stage for stage in whole.stages if stage.name == "training")
    note = (
        f"Training goes in mini-batches: over the whole graph it would take about "
        f"{step.peak / _GB:.1f} GB, and {allowed / _GB:.1f} GB "
        f"{'may be taken' if budget is None else 'are allowed'}."
    )
    return replace(plan, notes=(note,))


def _refusal(sizes: Sizes, plan: MemoryPlan, budget: int) -> str:
    least = plan.largest
    remedy = "Allow more memory, or use fewer attributes or a smaller width."
    if sizes.cap is None:
        capped = replace(sizes.config, sampler=replace(sizes.config.sampler, cap=_SUGGESTED_CAP))
        listed = plan_stages(replace(sizes, config=capped), budget)
        if listed.peak <= budget:
            remedy = (
                f"Allow more memory, or use top-k mode: with --cap {_SUGGESTED_CAP} it needs about "
                f"{format_bytes(listed.peak)}."
            )
    return (
        f"A fit of graph '{sizes.name}' needs about {format_bytes(plan.peak)} and the budget is "
        f"{format_bytes(budget)}: {_MOST[least.name]} takes most, with blocks and batches as small "
        f"as they go. {remedy}"
    )


def format_bytes(size: int) -> str:
    """Bytes as text, in GB or MB."""
    return f"{size / _GB:.2f} GB" if size >= 0.05 * _GB else f"{size / 2**20:.0f} MB"


_MOST = {
    "relations": "learning which relations matter",
    "positives": "finding positives",
    "training": "training",
    "embedding": "embedding all nodes",
    "head": "fitting the head to the embeddings",
}


def expected_sizes(graph: Graph, task: str, train: float) -> Sizes:
    """The sizes of a GCN on the CPU that is trained on a share of the labels or links."""
    sizes = Sizes.of(TrainingData(graph), task, make_task(task).recipe("gcn"))
    if task == LINKS_TASK:
        return replace(sizes, labelled=0, edges=round(train * sizes.edges))
    return replace(sizes, labelled=round(train * sizes.labelled))


INTERPRETER = 560 * 2**20
"""What Python, torch and PyG take before any work, and 60 MB that the allocator keeps."""


STAGES = ("relations", "positives", "training", "embedding", "head")


@dataclass(frozen=True)
class StagePlan:
    """A stage of a fit, and the bytes it takes at its peak, on the GPU where it runs on one."""

    name: str
    peak: int


@dataclass(frozen=True)
class MemoryPlan:
    """How a fit stays within its budget, and the memory that each stage takes."""

    recipe: FitConfig
    """With the mini-batches of the plan, where there are any."""
    block_rows: int
    """Rows of relations that are computed at a time."""
    stages: tuple[StagePlan, ...]
    store: int
    """Bytes that are written to the relation store."""
    mini_batches: bool
    """Whether the plan introduced mini-batches that the recipe does not have."""
    relations_kept: bool
    """Whether prepared relations stay in memory until the end of the fit."""
    notes: tuple[str, ...] = ()
    """Sentences about decisions that change the result."""

    @property
    def peak(self) -> int:
        """Bytes of the largest stage."""
        return max(stage.peak for stage in self.stages)

    @property
    def largest(self) -> StagePlan:
        """The stage with the highest peak."""
        return max(self.stages, key=lambda stage: stage.peak)

    def described(self) -> dict[str, Any]:
        """Everything but the recipe, as plain values."""
        encoders = self.recipe.ensembles[0].encoders
        cap = self.recipe.sampler.cap
        return {
            "mode": "exact" if cap is None else "top-k",
            "cap": cap,
            "block_rows": self.block_rows,
            "mini_batches": self.mini_batches,
            "relations_kept": self.relations_kept,
            "batches": [
                {
                    "anchors": encoder.training.anchors,
                    "epoch_anchors": encoder.training.epoch_anchors,
                    "neighbours": encoder.training.batch.neighbours,
                    "embedding_block": encoder.training.batch.block,
                }
                for encoder in encoders
            ],
            "store_bytes": self.store,
            "stages": [asdict(stage) for stage in self.stages],
            "peak_bytes": self.peak,
        }


def plan_stages(sizes: Sizes, budget: int) -> MemoryPlan:
    """The plan that keeps `budget`, or where none does, the one that takes least.

    Relations are dropped after the positives only where that is needed: an explanation has to
    prepare them again. Link prediction keeps them, as its scores read them.
    """
    plan = _plan(sizes, budget, drop_relations=False)
    if sizes.task == LINKS_TASK or (plan.peak <= budget and not plan.mini_batches):
        return plan
    return _plan(sizes, budget, drop_relations=True)


def _plan(sizes: Sizes, budget: int, drop_relations: bool) -> MemoryPlan:
    preparing = base_bytes(sizes) + kept_bytes(sizes) + preparing_bytes(sizes)
    found = preparing + found_bytes(sizes)
    rows = max(min(usual_rows(sizes), (budget - found) // row_bytes(sizes)), smallest_rows(sizes))
    block = row_bytes(sizes) * min(rows, sizes.nodes)
    resident = found - preparing_bytes(sizes) - (kept_bytes(sizes) if drop_relations else 0)
    ensembles, training, embedding = _plan_training(sizes, budget, resident)
    planned = replace(sizes, config=replace(sizes.config, ensembles=ensembles))
    peaks = (
        preparing + min(block, row_bytes(sizes) * max(sizes.queries, 1)),
        found + block,
        training,
        embedding,
        resident + max(joining_bytes(planned), head_bytes(planned)),
    )
    return MemoryPlan(
        planned.config,
        rows,
        tuple(StagePlan(*each) for each in zip(STAGES, peaks, strict=True)),
        store_bytes(sizes),
        mini_batches=planned.config != sizes.config,
        relations_kept=not drop_relations,
    )


def _plan_training(
    sizes: Sizes, budget: int, resident: int
) -> tuple[tuple[EnsembleConfig, ...], int, int]:
    """The ensembles as they can be trained within `budget`; the peaks of training and embedding."""
    ensembles, training, embedding = [], resident, resident
    for ensemble in sizes.config.ensembles:
        encoder_configs: list[EncoderConfig] = []
        beside = resident  # and the embeddings of the encoders that were trained before
        for given in ensemble.encoders:
            encoder = encoder_of(sizes, given)
            data = beside + data_bytes(sizes, encoder)
            encoder_config = fit_batch(sizes, encoder, given, budget - data)
            training = max(training, data + step_bytes(sizes, encoder, encoder_config.training))
            own = embedding_bytes(sizes, encoder, encoder_config.training.batch)
            embedding = max(embedding, data + own)
            beside += FLOAT * sizes.nodes * getattr(encoder, "width", 0)
            encoder_configs.append(encoder_config)
        ensembles.append(replace(ensemble, encoders=tuple(encoder_configs)))
    return tuple(ensembles), training, embedding


def base_bytes(sizes: Sizes) -> int:
    """Memory before any work: libraries, and the graph with the copy that is trained on."""
    return (DRIVER_BYTES if sizes.on_gpu else INTERPRETER) + graph_bytes(sizes)
