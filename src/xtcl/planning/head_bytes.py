"""Bytes that the joined embedding and the head take."""

from __future__ import annotations

from xtcl.learning.encoders.joined import ROWS
from xtcl.planning.training_bytes import EMBEDDING_BLOCK
from xtcl.planning.workload import LINKS, Workload
from xtcl.tasks.recipe import Plan
from xtcl.tasks.second_fit import MOST_ROWS

COPIES = 4
"""Copies of a head's rows, in double precision: as they come, turned, and what turning takes."""

MOST_PAIRS = 20_000
"""Pairs that a scorer of links is fitted on (`fit_link_head`)."""


def joining_bytes(work: Workload) -> int:
    """The members' embeddings and the joined one, and a block of rows between them."""
    members = sum_of_widths(work)
    return 4 * work.nodes * (members + work.width) + 8 * min(work.nodes, ROWS) * members


def sum_of_widths(work: Workload) -> int:
    """Columns of all members of the widest plan, without the attributes that stand beside them."""
    return max(replaced.width(0) for replaced in work.recipe.plans)


def head_bytes(work: Workload) -> int:
    """The most of three moments: with an embedding in doubt beside, fitting, and fitting again."""
    embedding = 4 * work.nodes * work.width
    if work.task == LINKS:
        return embedding + 8 * COPIES * min(MOST_PAIRS, 4 * work.edges) * work.width
    answers = 8 * 3 * work.nodes * work.classes
    row = 8 * COPIES * work.width
    first = embedding + row * work.labelled
    if work.recipe.doubt < 1:  # another embedding, for which the members are embedded once more
        widest = max(
            Plan((member,)).width(0) for plan in work.recipe.plans for member in plan.members
        )
        rows = 4 * work.nodes * widest
        again = rows + min(4 * rows, EMBEDDING_BLOCK)
        first = 2 * embedding + max(row * work.labelled, again)
    more = min(MOST_ROWS, work.nodes - work.labelled) if work.recipe.sure < 1 else 0
    return answers + max(first, embedding + row * (work.labelled + more))
