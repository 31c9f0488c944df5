"""The quick controls of a task, and what a user is advised once they are scored."""

from __future__ import annotations

import math
from collections.abc import Mapping

QUICK_CONTROLS = {
    "nodes": ("logistic", "propagation", "trees", "trees-neighbours", "gcn", "sscl"),
    "links": ("logistic", "propagation", "gcn"),
}
"""Methods that take no longer than a fit of XTCL, by task."""

_WHY = {
    "logistic": "attributes alone answer this task",
    "propagation": "links and attributes alone answer this task",
    "trees": "attributes alone answer this task",
    "trees-neighbours": "attributes and their means over neighbours alone answer this task",
    "gcn": "a graph network trained for the answers alone does better",
    "sscl": "positives chosen without labels do better",
}


def advice(compared: Mapping[str, float], own: str, task: str, count: int) -> str:
    """What the scores of `own` and others on `count` test nodes or links say, in one sentence.

    `compared` has fractions by method. Two are level where they differ by no more than the larger
    of their binomial standard errors, sqrt(p (1 - p) / count). There p counts one right and one
    wrong answer more, so that 100 % has an error, too. The AUC of links is taken for such a share.
    """

    def error(name: str, other: str) -> float:
        shares = [(compared[each] * count + 1) / (count + 2) for each in (name, other)]
        return 100 * max(math.sqrt(p * (1 - p) / count) for p in shares)

    def gap(name: str, other: str) -> float:
        return 100 * (compared[name] - compared[other])

    ranked = sorted(compared, key=lambda name: -compared[name])
    best = ranked[0]
    level = [name for name in ranked if gap(best, name) <= error(best, name)]
    test = f"one standard error of {count:,} test {task}"
    if own not in level:
        why = _WHY.get(best, "it suits this task better")
        return (
            f"{best} is {gap(best, own):.1f} points above {own} ({test}: {error(best, own):.1f}): "
            f"{why}; use it, or give more {'links' if task == 'links' else 'labels'}."
        )
    if len(level) == 1:
        second = ranked[1]
        return (
            f"{own} is first, {gap(own, second):.1f} points above {second} ({test}: "
            f"{error(own, second):.1f})."
        )
    names = f"{', '.join(level[:-1])} and {level[-1]}"
    return (
        f"{names} are level: {gap(best, level[-1]):.1f} points apart, where {test} is "
        f"{error(best, level[-1]):.1f}; the simplest will do, and `xtcl evaluate` over several "
        "splits tells more."
    )
