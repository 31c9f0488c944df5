"""The memory that a fit may take, and the plan that keeps it."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import torch

from xtcl.errors import BudgetError
from xtcl.planning.fit_plan import FitPlan, lay_out
from xtcl.planning.workload import Workload

SHARE = 0.8
"""Of the memory there is, what a fit may take that was given no budget."""

CAP = 32
"""The cap to try where exact mode does not fit."""

EVERYTHING = 2**62
GB = 2**30


def plan_fit(work: Workload, budget: int | None) -> FitPlan:
    """The plan of a fit within `budget` bytes; refuses what cannot be kept.

    Without a budget it is a share of all memory there is, free or not, so that a machine always
    plans the same. That is nobody's wish: what does not fit is tried all the same.
    """
    allowed = int(SHARE * memory_there(work.device)) if budget is None else budget
    plan = lay_out(work, allowed)
    if budget is not None and plan.peak > budget:
        raise BudgetError(_refusal(work, plan, budget))
    if not plan.mini_batches:
        return plan
    whole = lay_out(work, EVERYTHING)
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
        return EVERYTHING
    there = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii").strip()
    except OSError:
        return there
    return min(there, int(limit)) if limit.isdigit() else there


def _refusal(work: Workload, plan: FitPlan, budget: int) -> str:
    least = plan.largest
    remedy = "Allow more memory, or use fewer attributes or a smaller width."
    if work.cap is None:
        capped = replace(work.recipe, sampler=replace(work.recipe.sampler, cap=CAP))
        listed = lay_out(replace(work, recipe=capped), budget)
        if listed.peak <= budget:
            remedy = (
                f"Allow more memory, or use top-k mode: with --cap {CAP} it needs about "
                f"{amount(listed.peak)}."
            )
    return (
        f"A fit of graph '{work.name}' needs about {amount(plan.peak)} and the budget is "
        f"{amount(budget)}: {_MOST[least.name]} takes most, with blocks and batches as small "
        f"as they go. {remedy}"
    )


def amount(size: int) -> str:
    """Bytes in words."""
    return f"{size / GB:.2f} GB" if size >= 0.05 * GB else f"{size / 2**20:.0f} MB"


_MOST = {
    "relations": "learning which relations matter",
    "positives": "finding positives",
    "training": "training",
    "embedding": "embedding all nodes",
    "head": "fitting the head to the embeddings",
}
