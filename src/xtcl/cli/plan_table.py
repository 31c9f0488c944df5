"""The plan of a fit, for a person to read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.console import Console

from xtcl.cli.tables import plain_table

if TYPE_CHECKING:
    from xtcl.planning.fit_plan import FitPlan

GB = 2**30
LONG = 3600
SHORTER = "For less, give fit --cap 32: a relation then counts a node's 32 best alone."


def duration(seconds: float | None) -> str:
    """Seconds in words, as roughly as they are known."""
    if seconds is None:
        return "unknown"
    if seconds < 1.5:
        return "a second"
    if seconds < 90:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"


def print_plan(plan: FitPlan, budget: int | None, nodes: int) -> None:
    """What was decided, then a row for each stage: the seconds are those of two CPU cores or a GPU.

    Beside a GPU there is a host, which needs memory, too.
    """
    console = Console()
    for line in decisions(plan, budget, nodes):
        console.print(line, markup=False, soft_wrap=True, highlight=False)
    heads = ("peak memory",) if plan.host_peak is None else ("peak memory", "host memory")
    table = plain_table("stage", "time", *heads, numbers=heads)
    for stage in plan.stages:
        table.add_row(stage.name, duration(stage.seconds), *_sizes(stage.peak, stage.host_peak))
    table.add_row("whole fit", duration(plan.seconds), *_sizes(plan.peak, plan.host_peak))
    console.print()
    console.print(table)
    if plan.first_fit:
        more = f"The first fit of a process takes up to {plan.first_fit:.0f} seconds more."
        console.print(f"\n{more}", markup=False, soft_wrap=True, highlight=False)
    if (plan.seconds or 0) > LONG and plan.recipe.sampler.cap is None:
        console.print(f"\n{SHORTER}", markup=False, soft_wrap=True, highlight=False)


def _sizes(*peaks: int | None) -> list[str]:
    return [f"{peak / GB:.2f} GB" for peak in peaks if peak is not None]


def decisions(plan: FitPlan, budget: int | None, nodes: int) -> Iterator[str]:
    """One line for each thing that was decided."""
    from xtcl.planning.budget import amount

    cap = plan.recipe.sampler.cap
    allowed = "no budget given" if budget is None else f"{budget / GB:.2f} GB"
    yield f"memory:       {allowed}"
    yield f"mode:         {'exact' if cap is None else f'top-k, the {cap} best of a relation'}"
    some = f"{plan.block_rows:,} nodes at a time"
    yield f"blocks:       {'all nodes at once' if plan.block_rows >= nodes else some}"
    for number, member in enumerate(plan.recipe.plans[0].members, start=1):
        batch = member.training.batch.neighbours
        way = "the whole graph in every step"
        if batch is not None:
            most = f", up to {batch[0]} neighbours each" if batch else ""
            way = f"mini-batches of {member.training.anchors:,} anchors{most}"
        yield f"encoder {number}:    {way}"
    if plan.store:
        yield f"to the store: about {amount(plan.store)}"
