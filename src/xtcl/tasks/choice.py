"""Which of a recipe's plans to follow, and how a task may try them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from xtcl.graph.graph import Graph
from xtcl.learning.watch import Judge
from xtcl.tasks.fitted import FittedEmbedding
from xtcl.tasks.link_signals import SignalHead
from xtcl.tasks.recipe import Plan


@dataclass(frozen=True)
class Choice:
    """A plan, and for links the head that did best with it."""

    plan: Plan
    scorer: SignalHead | None = None


Train = Callable[[Plan, Judge | None, float], FittedEmbedding]
"""Trains a plan; with a judge, for as long as the judge sees it improve, and not for long where it
stays far below the number given."""

Trial = Callable[[Graph], Train]
"""Runs relations and sampler on a graph, and gives a function that trains on what they found."""
