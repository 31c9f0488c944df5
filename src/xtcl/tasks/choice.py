"""Which of a recipe's plans to follow, and how a task may try them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

from xtcl.graph.graph import Graph
from xtcl.learning.watch import Judge
from xtcl.tasks.link_head import LinkHead
from xtcl.tasks.recipe import Plan


@dataclass(frozen=True)
class Choice:
    """A plan, and for links the scorer that did best with it."""

    plan: Plan
    scorer: LinkHead | None = None


class Tried(NamedTuple):
    """What a trial gave: the embedding, and the plan with the epochs it was trained for.

    `verdict` is the judge's best on the last of the plan's members, -inf without a judge.
    """

    embedding: Tensor
    plan: Plan
    verdict: float = float("-inf")


Train = Callable[[Plan, Judge | None, float], Tried]
"""Trains a plan; with a judge, for as long as the judge sees it improve, and not for long where it
stays far below the number given."""

Trial = Callable[[Graph], Train]
"""Runs relations and sampler on a graph, and gives a function that trains on what they found."""
