"""Results as tables for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.table import Table

if TYPE_CHECKING:
    from xtcl.sampling.findings import RelationWeight


def printable(text: str) -> str:
    """The text, with what a terminal would obey written out."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def plain_table(*columns: str, numbers: Sequence[str] = ()) -> Table:
    """A table without a frame; the columns named in `numbers` are set flush right."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(
            column,
            justify="right" if column in numbers else "left",
            no_wrap=column in columns[:1],  # names must be readable to the last letter
        )
    return table


def weights_table(weights: Sequence[RelationWeight]) -> Table:
    """What the sampler learned, in training order."""
    from xtcl.relations.registry import relation_title  # imports torch

    numbers = ("order", "precision", "support", "w0", "w1", "importance")
    table = plain_table("relation", *numbers, numbers=numbers)
    for w in weights:
        table.add_row(
            relation_title(w.relation),
            str(w.order),
            f"{w.precision:.3f}",
            str(w.support),
            f"{w.w0:+.2f}",
            f"{w.w1:+.2f}",
            f"{w.importance:.2f}",
        )
    return table
