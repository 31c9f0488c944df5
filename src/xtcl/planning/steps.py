"""How many steps an encoder is trained for, and what each of them passes over."""

from __future__ import annotations

from typing import NamedTuple

from xtcl.learning.encoders.layered import Layered
from xtcl.learning.mini_pass import step_rows
from xtcl.planning.training_bytes import encoder_of
from xtcl.planning.workload import Workload
from xtcl.tasks.recipe import Member


class Steps(NamedTuple):
    """The steps of a member of a plan."""

    number: int
    width: int
    rows: list[int]
    """Rows that go into each layer, and come out of the last."""
    links: list[int]
    """Links that each layer looks along."""

    @classmethod
    def of(cls, work: Workload, member: Member) -> Steps:
        """Counting a single layer for an encoder of the user's own."""
        encoder, settings = encoder_of(work, member), member.training
        looks = encoder.looks if isinstance(encoder, Layered) else (True,)
        rows = [work.nodes] * (len(looks) + 1)
        links = [2 * work.edges * look for look in looks]
        if settings.batch.neighbours is not None and isinstance(encoder, Layered):
            rows, links = step_rows(encoder, work.nodes, work.edges, settings, work.draws)
        number = settings.epochs * settings.steps(work.nodes)
        return cls(number, getattr(encoder, "width", 512), rows, links)
