"""Bytes that the joined embedding and the head take."""

from __future__ import annotations

from xtcl.learning.encoders.joined import ROWS
from xtcl.planning.workload import LINKS, Workload
from xtcl.tasks import principal_rows
from xtcl.tasks.logistic_solver import COLUMNS
from xtcl.tasks.second_fit import MOST_ROWS

NUMBER = 4 + 8 + 4
"""Bytes for a number of a head's rows: as it comes, turned in double precision, and rounded."""

SPANNED = 32
"""The same where the span of the rows is found, or their features come in double precision."""

SLACK = 1.05
"""What was seen at the peak of a head, beside the sum of its arrays: 3 % more at 100,000 nodes."""

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
    """What the embedding and its head take at the most."""
    return round(SLACK * _arrays(work))


def _arrays(work: Workload) -> int:
    """The most of two moments: with an embedding in doubt beside, and fitting again."""
    embedding = 4 * work.nodes * work.width
    if work.task == LINKS:
        return embedding + SPANNED * min(MOST_PAIRS, 4 * work.edges) * work.width
    answers = 8 * 3 * work.nodes * work.classes
    embeddings = 2 if work.recipe.doubt < 1 else 1
    more = min(MOST_ROWS, work.nodes - work.labelled) if work.recipe.sure < 1 else 0
    first = embeddings * embedding + _fit_bytes(work, work.labelled)
    return answers + max(first, embedding + _fit_bytes(work, work.labelled + more))


def _fit_bytes(work: Workload, rows: int) -> int:
    """The rows of a fit, some of them turned or squared, and arrays of its five folds."""
    if rows <= principal_rows.FEW:
        return SPANNED * rows * work.width
    turned = 3 * 8 * min(principal_rows.BLOCK, rows * work.width)
    squared = 8 * rows * min(COLUMNS, work.width)
    folds = 8 * 6 * 5 * rows * work.classes
    return NUMBER * rows * work.width + max(turned, squared) + folds
