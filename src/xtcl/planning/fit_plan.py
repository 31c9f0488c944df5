"""The plan of a fit: its mode, blocks and batches, and what every stage will take."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from xtcl.gpu_memory import DRIVER
from xtcl.learning.full_pass import FLOAT
from xtcl.planning.gpu_seconds import FIRST_FIT
from xtcl.planning.head_bytes import head_bytes, joining_bytes
from xtcl.planning.host_bytes import graph_bytes, host_peaks
from xtcl.planning.relation_bytes import (
    found_bytes,
    kept_bytes,
    preparing_bytes,
    row_bytes,
    smallest_rows,
    store_bytes,
    usual_rows,
)
from xtcl.planning.seconds import predicted_seconds
from xtcl.planning.training_bytes import (
    data_bytes,
    embedding_bytes,
    encoder_of,
    settled,
    step_bytes,
)
from xtcl.planning.workload import LINKS, Workload
from xtcl.tasks.recipe import Member, Plan, Recipe

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
class FitPlan:
    """What is decided about a fit, and what it will take.

    `recipe` has the mini-batches in it where there are any; `block_rows` are the rows of relations
    that are worked on at a time.
    """

    recipe: Recipe
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
        members = self.recipe.plans[0].members
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


def lay_out(work: Workload, budget: int) -> FitPlan:
    """The plan that keeps `budget`, or where none does, the one that takes least.

    Relations are let go of after the positives only where that is of use: an explanation has to
    make them again. Scores of links ask for them once more, and keep them.
    """
    plan = _laid_out(work, budget, let_go=False)
    if work.task == LINKS or (plan.peak <= budget and not plan.mini_batches):
        return plan
    return _laid_out(work, budget, let_go=True)


def _laid_out(work: Workload, budget: int, let_go: bool) -> FitPlan:
    preparing = base_bytes(work) + kept_bytes(work) + preparing_bytes(work)
    found = preparing + found_bytes(work)
    rows = max(min(usual_rows(work), (budget - found) // row_bytes(work)), smallest_rows(work))
    block = row_bytes(work) * min(rows, work.nodes)
    standing = found - preparing_bytes(work) - (kept_bytes(work) if let_go else 0)
    plans, training, embedding = _trained(work, budget, standing)
    planned = replace(work, recipe=replace(work.recipe, plans=plans))
    peaks = (
        preparing + min(block, row_bytes(work) * max(work.queries, 1)),
        found + block,
        training,
        embedding,
        standing + max(joining_bytes(planned), head_bytes(planned)),
    )
    hosts = host_peaks(planned) if work.on_gpu else (None,) * len(STAGES)
    stages = zip(STAGES, predicted_seconds(planned), peaks, hosts, strict=True)
    return FitPlan(
        planned.recipe,
        rows,
        tuple(StagePlan(*each) for each in stages),
        store_bytes(work),
        mini_batches=planned.recipe != work.recipe,
        relations_kept=not let_go,
        first_fit=FIRST_FIT if work.on_gpu else 0.0,
    )


def _trained(work: Workload, budget: int, standing: int) -> tuple[tuple[Plan, ...], int, int]:
    """The plans as they can be trained within `budget`; the peaks of training and embedding."""
    plans, training, embedding = [], standing, standing
    for plan in work.recipe.plans:
        members: list[Member] = []
        beside = standing  # the embeddings of the members that were trained before
        for given in plan.members:
            encoder = encoder_of(work, given)
            data = beside + data_bytes(work, encoder)
            member = settled(work, encoder, given, budget - data)
            training = max(training, data + step_bytes(work, encoder, member.training))
            own = embedding_bytes(work, encoder, member.training.batch)
            embedding = max(embedding, data + own)
            beside += FLOAT * work.nodes * getattr(encoder, "width", 0)
            members.append(member)
        plans.append(replace(plan, members=tuple(members)))
    return tuple(plans), training, embedding


def base_bytes(work: Workload) -> int:
    """What is there before any work, and the graph with the copy that is trained on."""
    return (DRIVER if work.on_gpu else INTERPRETER) + graph_bytes(work)
