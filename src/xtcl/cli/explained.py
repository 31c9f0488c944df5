"""Explanations as text for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from xtcl.cli.tables import plain_table, printable

if TYPE_CHECKING:
    from xtcl.answers.explanations import Alike, Belief, NodeExplanation

SHOWN = 10
"""Positives and neighbours that are listed; --json has all of them."""


def node_text(told: NodeExplanation) -> Iterator[str | Table]:
    """What is thought of a node, its positives and its neighbours."""
    yield _belief(told.node)
    if told.chances:
        likeliest = sorted(told.chances.items(), key=lambda item: -item[1])[:SHOWN]
        yield printable("  " + ", ".join(f"{name} {chance:.3f}" for name, chance in likeliest))
    yield ""
    if told.positives:
        yield f"Positives, which training pulled it towards ({_listed(told.positives)}):"
        yield _positives(told.positives[:SHOWN])
    else:
        yield "Positives: none. No node is likely enough to be alike; its own attributes decide."
    yield ""
    if not told.neighbours:
        yield "Neighbours: none. It has no links that training saw."
        return
    said = _said(told.neighbours)
    yield f"Neighbours ({_listed(told.neighbours)}){': ' if said else ''}{said}"
    for neighbour in told.neighbours[:SHOWN]:
        yield f"  {_belief(neighbour)}"


def pair_text(pair: Alike) -> Iterator[str | Table]:
    """How alike two nodes are taken to be, and every relation's part in it."""
    yield _belief(pair.node)
    yield _belief(pair.other)
    linked = "Linked" if pair.is_linked else "Not linked"
    chosen = "a positive" if pair.is_positive else "no positive"
    yield f"{linked}; the second is {chosen} of the first."
    if pair.link_score is not None:
        yield f"Score of a link between them: {pair.link_score:.3f}"
    yield ""
    yield f"Alike for the task with a chance of {pair.probability:.3f}; pattern {pair.pattern}."
    yield f"Log-odds: {pair.base:+.2f} to begin with, and what each relation adds:"
    yield _signals(pair)


def _signals(pair: Alike) -> Table:
    from xtcl.relations.registry import relation_title

    numbers = ("similarity", "threshold", "weight")
    table = plain_table("relation", *numbers, "stands out", numbers=numbers)
    for signal in pair.signals:
        table.add_row(
            relation_title(signal.relation),
            f"{signal.similarity:.4g}",
            ", ".join(f"{bar:.4g}" for bar in signal.thresholds),
            f"{signal.weight:+.2f}",
            "yes" if signal.level == len(signal.thresholds) else "in part" if signal.level else "",
        )
    return table


def _positives(positives: Sequence[Alike]) -> Table:
    from xtcl.relations.registry import relation_title

    # A run for links knows of no classes.
    has_classes = any(_class(pair.other) for pair in positives)
    columns = ["  node", *(["class"] if has_classes else []), "alike", "because of"]
    table = plain_table(*columns, numbers=["alike"])
    for pair in positives:
        reasons = ", ".join(
            f"{relation_title(signal.relation)} {signal.weight:+.2f}" for signal in pair.reasons
        )
        chance = f"{pair.probability:.2f}" if pair.probability > 0.01 else f"{pair.probability:.1g}"
        known = [_class(pair.other)] if has_classes else []
        cells = (f"  {pair.other.node}", *known, chance, reasons)
        table.add_row(*(Text(printable(cell)) for cell in cells))
    return table


def _belief(of: Belief) -> str:
    return printable(f"{of.node}: {_class(of)}" if _class(of) else str(of.node))


def _class(of: Belief) -> str:
    if of.known is not None:
        wrong = of.predicted not in (None, of.known)
        doubt = f", though {of.predicted} is predicted ({of.probability:.2f})" if wrong else ""
        return f"{of.known} (known{doubt})"
    return "" if of.predicted is None else f"{of.predicted} (predicted, {of.probability:.2f})"


def _said(neighbours: Sequence[Belief]) -> str:
    """How many neighbours are of which class."""
    classes = Counter(
        of.predicted if of.known is None else of.known for of in neighbours if _class(of)
    )
    return printable(", ".join(f"{count} {name}" for name, count in classes.most_common(SHOWN)))


def _listed(items: Sequence[object]) -> str:
    return str(len(items)) if len(items) <= SHOWN else f"the first {SHOWN} of {len(items)}"
