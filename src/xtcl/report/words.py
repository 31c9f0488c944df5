"""The summary in words, for readers who never saw the paper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xtcl.errors import first_few
from xtcl.report.data_health import FEW_TRAINED, DataHealth
from xtcl.report.facts import CONFIDENT, NodesToReview
from xtcl.report.scores import LinkTest, NodeTest
from xtcl.report.weights import RelationRow

CLOSE = 0.03
"""A mean gap between said and true probabilities that is small."""


FEW = 30
"""Held-out nodes below which scores say little."""


@dataclass(frozen=True)
class SummaryText:
    """A point of the summary."""

    head: str
    text: str


def summary_text(
    task: str,
    health: DataHealth,
    nodes: NodeTest | None,
    links: LinkTest | None,
    relations: Sequence[RelationRow],
    alike: float,
    look: NodesToReview,
) -> tuple[SummaryText, ...]:
    """What a reader in a hurry should take along; `alike` is the share of all known pairs."""
    said = [_quality(task, health, nodes, links), _signals(task, relations, alike)]
    if nodes is not None:
        said.append(_trust(nodes))
    careful = _careful(health, nodes, look)
    if careful:
        said.append(SummaryText("Be careful with", " ".join(careful)))
    return tuple(said)


def percent(share: float, digits: int = 0) -> str:
    """A share in percent, which no line ends inside of."""
    return f"{100 * share:.{digits}f}\N{NO-BREAK SPACE}%"


def rough(share: float) -> str:
    """A share in percent, with a digit more where it is small."""
    return percent(share, 1 if 0 < share < 0.1 else 0)


def _quality(
    task: str, health: DataHealth, nodes: NodeTest | None, links: LinkTest | None
) -> SummaryText:
    head = "How good it is"
    if nodes is not None:
        low, high = nodes.interval
        few = " That is few nodes to judge by." if nodes.count < FEW else ""
        return SummaryText(
            head,
            f"Of {nodes.count:,} nodes whose label was kept from the fit, it gives "
            f"{percent(nodes.accuracy, 1)} the right class (95 % interval {100 * low:.1f} to "
            f"{percent(high, 1)}). Always naming the most common class would be right for "
            f"{percent(nodes.guess, 1)}.{few}",
        )
    if links is not None:
        return SummaryText(
            head,
            f"Shown a link that was kept from the fit and a pair without a link, it scores the "
            f"link higher in {percent(links.auc, 1)} of cases (AUC, from {links.links:,} links "
            f"and {links.non_links:,} non-links). Guessing would be right in half of them.",
        )
    what = "links" if task == "links" else "labels"
    return SummaryText(
        head,
        f"Not known from this run: all {what} it had were trained on, and none held out. Fit "
        "with a split to see scores."
        if task in ("nodes", "links")
        else f"Not known: a task of your own on {health.nodes:,} nodes has no score.",
    )


def _signals(task: str, relations: Sequence[RelationRow], share: float) -> SummaryText:
    alike = "linked" if task == "links" else "of one class" if task == "nodes" else "alike"
    best = [
        row for row in relations if row.weight > 0 and (row.is_clear or not row.weight_interval)
    ]
    if not best:
        return SummaryText(
            "What mattered",
            f"Nothing for certain: no relation clearly speaks for two nodes being {alike} here.",
        )
    best.sort(key=lambda row: row.is_few)  # those that rest on many pairs first, else by weight
    first = best[0]
    few = " (few pairs)" if first.is_few else ""
    text = (
        f"The strongest sign that two nodes are {alike} is “{first.title}”{few}: of the "
        f"{first.support:,} known pairs that stand out by it, {rough(first.precision)} are; of all "
        f"known pairs, {rough(share)}."
    )
    others = " and ".join(f"“{row.title}”" for row in best[1:3])
    unclear = sum(not row.is_clear for row in relations if row.weight_interval is not None)
    if others:
        text += f" Next: {others}."
    if unclear:
        text += f" {unclear} of {len(relations)} weights could as well be zero."
    return SummaryText("What mattered", text)


def _trust(nodes: NodeTest) -> SummaryText:
    found = nodes.reliability
    gap = found.said - found.right
    low, high = nodes.interval
    if found.ece <= CLOSE:
        verdict = "you can take its probabilities at their word"
    elif low <= found.said <= high and abs(gap) >= CLOSE:
        verdict = f"no more apart than {nodes.count:,} nodes can tell"
    elif abs(gap) < CLOSE:
        verdict = "right on average, but too high in places and too low in others"
    elif gap > 0:
        verdict = "it is too sure of itself"
    else:
        verdict = "it is more modest than it need be"
    return SummaryText(
        "How far to trust a probability",
        f"On held-out nodes it says {percent(found.said)} on average, and is right for "
        f"{percent(found.right)}: {verdict} (mean gap {100 * found.ece:.1f} points).",
    )


def _s(count: int) -> str:
    return "" if count == 1 else "s"


def _careful(health: DataHealth, nodes: NodeTest | None, look: NodesToReview) -> list[str]:
    told = []
    if look.sure_wrong:
        told.append(
            f"{look.sure_wrong:,} held-out node{_s(look.sure_wrong)} "
            f"that it was {percent(CONFIDENT)} "
            "sure of or more, and wrong."
        )
    if nodes is not None and nodes.scores and (nodes.scores[0].found or 0.0) < nodes.accuracy:
        worst = nodes.scores[0]
        told.append(
            f"Class “{worst.name}”: {percent(worst.found or 0.0)} of its {worst.count:,} "
            f"held-out node{_s(worst.count)} found."
        )
    if health.scarce:
        named = first_few(f"“{size.name}” ({size.trained})" for size in health.scarce)
        told.append(f"Classes with fewer than {FEW_TRAINED} labels to learn from: {named}.")
    if health.isolated:
        told.append(f"{health.isolated:,} node{_s(health.isolated)} without any link.")
    if health.blank:
        told.append(f"{health.blank:,} node{_s(health.blank)} without any attribute.")
    by_chance = health.by_chance or 0.0
    if health.homophily is not None and health.homophily < by_chance + 0.05:
        told.append("Links here join classes as chance would: neighbours say little.")
    return told
