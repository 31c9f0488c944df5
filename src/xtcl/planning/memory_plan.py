"""The memory that a fit may take, and the plan that keeps it."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from xtcl.config import EncoderConfig, EnsembleConfig, FitConfig
from xtcl.device import DRIVER
from xtcl.errors import BudgetError
from xtcl.graph.graph import Graph
from xtcl.planning.bytes import (
    FLOAT,
    data_bytes,
    embedding_bytes,
    encoder_of,
    fit_batch,
    found_bytes,
    graph_bytes,
    head_bytes,
    host_peaks,
    joining_bytes,
    kept_bytes,
    preparing_bytes,
    row_bytes,
    smallest_rows,
    step_bytes,
    store_bytes,
    usual_rows,
)
from xtcl.planning.seconds import FIRST_FIT, predicted_seconds
from xtcl.planning.sizes import LINKS, Sizes
from xtcl.tasks import make_task
from xtcl.tasks.training_data import TrainingData

SHARE = 0.8
"""Of the memory there is, what a fit may take that was given no budget."""


CAP = 32
"""The cap to try where exact mode does not fit."""


NO_LIMIT = 2**62


GB = 2**30


def plan_fit(work: Sizes, budget: int | None) -> MemoryPlan:
    """The plan of a fit within `budget` bytes; refuses what cannot be kept.

    Without a budget it is a share of all memory there is, free or not, so that a machine always
    plans the same. That is nobody's wish: what does not fit is tried all the same.
    """
    allowed = int(SHARE * memory_there(work.device)) if budget is None else budget
    plan = plan_stages(work, allowed)
    if budget is not None and plan.peak > budget:
        raise BudgetError(_refusal(work, plan, budget))
    if not plan.mini_batches:
        return plan
    whole = plan_stages(work, NO_LIMIT)
    step = next(stage for stage in whole.stages if stage.name == "training")
    note = (
        f"Training goes in mini-batches: over the whole graph it would take about "
        f"{step.peak / GB:.1f} GB, and {allowed / GB:.1f} GB "
        f"{'may be taken' if budget is None else 'are allowed'}."
    )
    return replace(plan, notes=(note,))


def memory_there(device: str) -> int:
    """Bytes of the device's memory, or of what the container may take of it."""
    if device.startswith("cuda"):
        return int(torch.cuda.get_device_properties(device).total_memory)
    if not hasattr(os, "sysconf"):
        return NO_LIMIT
    there = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii").strip()
    except OSError:
        return there
    return min(there, int(limit)) if limit.isdigit() else there


def _refusal(work: Sizes, plan: MemoryPlan, budget: int) -> str:
    least = plan.largest
    remedy = "Allow more memory, or use fewer attributes or a smaller width."
    if work.cap is None:
        capped = replace(work.recipe, sampler=replace(work.recipe.sampler, cap=CAP))
        listed = plan_stages(replace(work, recipe=capped), budget)
        if listed.peak <= budget:
            remedy = (
                f"Allow more memory, or use top-k mode: with --cap {CAP} it needs about "
                f"{format_bytes(listed.peak)}."
            )
    return (
        f"A fit of graph '{work.name}' needs about {format_bytes(plan.peak)} and the budget is "
        f"{format_bytes(budget)}: {_MOST[least.name]} takes most, with blocks and batches as small "
        f"as they go. {remedy}"
    )


def format_bytes(size: int) -> str:
    """Bytes in words."""
    return f"{size / GB:.2f} GB" if size >= 0.05 * GB else f"{size / 2**20:.0f} MB"


_MOST = {
    "relations": "learning which relations matter",
    "positives": "finding positives",
    "training": "training",
    "embedding": "embedding all nodes",
    "head": "fitting the head to the embeddings",
}


def estimate_fit(graph: Graph, task: str, train: float) -> MemoryPlan:
    """The plan of a GCN on the CPU without a budget, trained on a share of the labels or links."""
    work = Sizes.of(TrainingData(graph), task, make_task(task).recipe("gcn"))
    if task == LINKS:
        work = replace(work, labelled=0, edges=round(train * work.edges))
    else:
        work = replace(work, labelled=round(train * work.labelled))
    return plan_stages(work, NO_LIMIT)


INTERPRETER = 560 * 2**20
"""What Python, torch and PyG take before any work, and 60 MB that the allocator keeps of all."""


STAGES = ("relations", "positives", "training", "embedding", "head")


@dataclass(frozen=True)
class StagePlan:
    """What a stage will take: seconds (None: not known for this device), and bytes at its peak.

    Beside a GPU, whose bytes these are, `host_peak` are those of the host; None where it is both.
    """

    name: str
    seconds: float | None
    peak: int
    host_peak: int | None = None


@dataclass(frozen=True)
class MemoryPlan:
    """What is decided about a fit, and what it will take.

    `recipe` has the mini-batches in it where there are any; `block_rows` are the rows of relations
    that are worked on at a time.
    """

    recipe: FitConfig
    block_rows: int
    stages: tuple[StagePlan, ...]
    store: int
    """Bytes that go to the relation store."""
    mini_batches: bool
    """Whether the plan brought mini-batches in, where the recipe had none."""
    relations_kept: bool
    """Whether what relations are made of stays until the end of the fit."""
    first_fit: float = 0.0
    """Seconds that the first fit of a process takes on top."""
    notes: tuple[str, ...] = ()
    """Sentences about what was decided that changes the result."""

    @property
    def peak(self) -> int:
        """Bytes of the largest stage."""
        return max(stage.peak for stage in self.stages)

    @property
    def host_peak(self) -> int | None:
        """The same of the host beside a GPU."""
        return max((stage.host_peak for stage in self.stages if stage.host_peak), default=None)

    @property
    def largest(self) -> StagePlan:
        """The stage with the highest peak."""
        return max(self.stages, key=lambda stage: stage.peak)

    @property
    def seconds(self) -> float | None:
        """Seconds of all stages."""
        known = [stage.seconds for stage in self.stages if stage.seconds is not None]
        return sum(known) if len(known) == len(self.stages) else None

    def described(self) -> dict[str, Any]:
        """Everything but the recipe, as plain values."""
        members = self.recipe.ensembles[0].encoders
        cap = self.recipe.sampler.cap
        return {
            "mode": "exact" if cap is None else "top-k",
            "cap": cap,
            "block_rows": self.block_rows,
            "mini_batches": self.mini_batches,
            "relations_kept": self.relations_kept,
            "batches": [
                {
                    "anchors": member.training.anchors,
                    "epoch_anchors": member.training.epoch_anchors,
                    "neighbours": member.training.batch.neighbours,
                    "embedding_block": member.training.batch.block,
                }
                for member in members
            ],
            "store_bytes": self.store,
            "stages": [asdict(stage) for stage in self.stages],
            "seconds": self.seconds,
            "first_fit_seconds": self.first_fit,
            "peak_bytes": self.peak,
            "host_peak_bytes": self.host_peak,
        }


def plan_stages(work: Sizes, budget: int) -> MemoryPlan:
    """The plan that keeps `budget`, or where none does, the one that takes least.

    Relations are let go of after the positives only where that is of use: an explanation has to
    make them again. Scores of links ask for them once more, and keep them.
    """
    plan = _laid_out(work, budget, let_go=False)
    if work.task == LINKS or (plan.peak <= budget and not plan.mini_batches):
        return plan
    return _laid_out(work, budget, let_go=True)


def _laid_out(work: Sizes, budget: int, let_go: bool) -> MemoryPlan:
    preparing = base_bytes(work) + kept_bytes(work) + preparing_bytes(work)
    found = preparing + found_bytes(work)
    rows = max(min(usual_rows(work), (budget - found) // row_bytes(work)), smallest_rows(work))
    block = row_bytes(work) * min(rows, work.nodes)
    standing = found - preparing_bytes(work) - (kept_bytes(work) if let_go else 0)
    plans, training, embedding = _trained(work, budget, standing)
    planned = replace(work, recipe=replace(work.recipe, ensembles=plans))
    peaks = (
        preparing + min(block, row_bytes(work) * max(work.queries, 1)),
        found + block,
        training,
        embedding,
        standing + max(joining_bytes(planned), head_bytes(planned)),
    )
    hosts = host_peaks(planned) if work.on_gpu else (None,) * len(STAGES)
    stages = zip(STAGES, predicted_seconds(planned), peaks, hosts, strict=True)
    return MemoryPlan(
        planned.recipe,
        rows,
        tuple(StagePlan(*each) for each in stages),
        store_bytes(work),
        mini_batches=planned.recipe != work.recipe,
        relations_kept=not let_go,
        first_fit=FIRST_FIT if work.on_gpu else 0.0,
    )


def _trained(
    work: Sizes, budget: int, standing: int
) -> tuple[tuple[EnsembleConfig, ...], int, int]:
    """The plans as they can be trained within `budget`; the peaks of training and embedding."""
    plans, training, embedding = [], standing, standing
    for plan in work.recipe.ensembles:
        members: list[EncoderConfig] = []
        beside = standing  # the embeddings of the members that were trained before
        for given in plan.encoders:
            encoder = encoder_of(work, given)
            data = beside + data_bytes(work, encoder)
            member = fit_batch(work, encoder, given, budget - data)
            training = max(training, data + step_bytes(work, encoder, member.training))
            own = embedding_bytes(work, encoder, member.training.batch)
            embedding = max(embedding, data + own)
            beside += FLOAT * work.nodes * getattr(encoder, "width", 0)
            members.append(member)
        plans.append(replace(plan, encoders=tuple(members)))
    return tuple(plans), training, embedding


def base_bytes(work: Sizes) -> int:
    """What is there before any work, and the graph with the copy that is trained on."""
    return (DRIVER if work.on_gpu else INTERPRETER) + graph_bytes(work)
