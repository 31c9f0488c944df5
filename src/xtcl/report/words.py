"""The summary of a run as text, for readers who do not know the method."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xtcl.errors import first_few
from xtcl.report.data_health import MIN_TRAINED_LABELS, DataHealth
from xtcl.report.facts import CONFIDENT_PROBABILITY, NodesToReview
from xtcl.report.scores import LinkTest, NodeTest
from xtcl.report.weights import RelationRow

_SMALL_GAP = 0.03
"""Up to this mean gap between confidence and accuracy, probabilities count as calibrated."""

_MIN_TEST_NODES = 30
"""With fewer held-out nodes, the summary notes that they are few."""


@dataclass(frozen=True)
class SummaryText:
    """A point of the summary: its heading and its text."""

    head: str
    text: str


def summary_text(
    task: str,
    health: DataHealth,
    nodes: NodeTest | None,
    links: LinkTest | None,
    relations: Sequence[RelationRow],
    base_rate: float,
    review: NodesToReview,
    choice: Sequence[str] = (),
) -> tuple[SummaryText, ...]:
    """The points of the summary; `base_rate` is the share of all known pairs that are alike.

    `choice` are the sentences on what hidden labels chose.
    """
    points = [_quality(task, health, nodes, links), signals_text(task, relations, base_rate)]
    if choice:
        points.append(SummaryText("What predicts", " ".join(choice)))
    if nodes is not None:
        points.append(calibration_text(nodes))
    cautions = caution_sentences(health, nodes, review)
    if cautions:
        points.append(SummaryText("Be careful with", " ".join(cautions)))
    return tuple(points)


def _quality(
    task: str, health: DataHealth, nodes: NodeTest | None, links: LinkTest | None
) -> SummaryText:
    head = "How good it is"
    if nodes is not None:
        low, high = nodes.interval
        few = " That is a small sample." if nodes.count < _MIN_TEST_NODES else ""
        return SummaryText(
            head,
            f"Of {nodes.count:,} nodes whose label was kept from the fit, it gives "
            f"{percent(nodes.accuracy, 1)} the right class (95 % interval {100 * low:.1f} to "
            f"{percent(high, 1)}). Always naming the most common class would be right for "
            f"{percent(nodes.majority_accuracy, 1)}.{few}",
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


def signals_text(task: str, relations: Sequence[RelationRow], base_rate: float) -> SummaryText:
    """The relations with the largest weights, of those that are clearly positive."""
    alike = "linked" if task == "links" else "of one class" if task == "nodes" else "alike"
    best = [
        row
        for row in relations
        if row.weight > 0 and (row.excludes_zero or not row.weight_interval)
    ]
    if not best:
        return SummaryText(
            "What mattered",
            f"Nothing for certain: no relation clearly speaks for two nodes being {alike} here.",
        )
    best.sort(key=lambda row: row.has_few_pairs)  # relations with many pairs first, then by weight
    first = best[0]
    few = " (few pairs)" if first.has_few_pairs else ""
    text = (
        f"The strongest sign that two nodes are {alike} is “{first.title}”{few}: of the "
        f"{first.support:,} known pairs that stand out by it, {short_percent(first.precision)} "
        f"are; of all known pairs, {short_percent(base_rate)}."
    )
    others = " and ".join(f"“{row.title}”" for row in best[1:3])
    unclear = sum(not row.excludes_zero for row in relations if row.weight_interval is not None)
    if others:
        text += f" Next: {others}."
    if unclear:
        text += f" {unclear} of {len(relations)} weights could as well be zero."
    return SummaryText("What mattered", text)


def calibration_text(nodes: NodeTest) -> SummaryText:
    """Whether the confidence on held-out nodes agrees with the accuracy there."""
    found = nodes.reliability
    gap = found.mean_confidence - found.accuracy
    low, high = nodes.interval
    if found.ece <= _SMALL_GAP:
        assessment = "you can take its probabilities at their word"
    elif low <= found.mean_confidence <= high and abs(gap) >= _SMALL_GAP:
        assessment = f"no more apart than {nodes.count:,} nodes can tell"
    elif abs(gap) < _SMALL_GAP:
        assessment = "right on average, but too high in places and too low in others"
    elif gap > 0:
        assessment = "it is overconfident"
    else:
        assessment = "it is underconfident"
    return SummaryText(
        "How far to trust a probability",
        f"On held-out nodes it says {percent(found.mean_confidence)} on average, and is right for "
        f"{percent(found.accuracy)}: {assessment} (mean gap {100 * found.ece:.1f} points).",
    )


def caution_sentences(
    health: DataHealth, nodes: NodeTest | None, review: NodesToReview
) -> list[str]:
    """Sentences about errors, classes and nodes that need care."""
    sentences = []
    if review.confident_errors:
        sentences.append(
            f"{_count(review.confident_errors, 'held-out node')} that it was "
            f"{percent(CONFIDENT_PROBABILITY)} sure of or more, and wrong."
        )
    if nodes is not None and nodes.scores and (nodes.scores[0].recall or 0.0) < nodes.accuracy:
        worst = nodes.scores[0]
        sentences.append(
            f"Class “{worst.name}”: {percent(worst.recall or 0.0)} of its "
            f"{_count(worst.count, 'held-out node')} found."
        )
    if health.rare_classes:
        named = first_few(f"“{size.name}” ({size.trained})" for size in health.rare_classes)
        sentences.append(
            f"Classes with fewer than {MIN_TRAINED_LABELS} labels to learn from: {named}."
        )
    if health.isolated:
        sentences.append(f"{_count(health.isolated, 'node')} without any link.")
    if health.without_attributes:
        sentences.append(f"{_count(health.without_attributes, 'node')} without any attribute.")
    expected = health.expected_homophily or 0.0
    if health.homophily is not None and health.homophily < expected + 0.05:
        sentences.append("Links here join classes as chance would: neighbours say little.")
    return sentences


def percent(share: float, digits: int = 0) -> str:
    """A share in percent, with a space that no line breaks at."""
    return f"{100 * share:.{digits}f}\N{NO-BREAK SPACE}%"


def short_percent(share: float) -> str:
    """A share in percent, with one decimal where it is below 10 %."""
    return percent(share, 1 if 0 < share < 0.1 else 0)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
