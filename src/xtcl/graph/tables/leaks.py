"""Columns that give the label away: often the answer in disguise, known only afterwards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from xtcl.graph.arrays import IntArray
from xtcl.graph.draw import generator
from xtcl.graph.graph import Graph
from xtcl.graph.tables.encoding import NUMBER

ENOUGH_LABELS = 20
SUSPICIOUS = 0.98
"""From this share of right answers on, a single column is too good."""
LARGEST_CLASS = 0.9
"""Where one class is larger, every column is right as often."""
GROUP = 5
"""Labelled nodes in a group of equal values, on average: smaller groups are pure by chance."""
RANGES = 2
"""Ranges of a number for each class."""
LOOKED_AT = 5000
"""Labelled nodes that are enough to see it."""


@dataclass(frozen=True)
class Suspect:
    """A column from which alone `share` of the known labels can be read."""

    column: str
    share: float


def suspects(graph: Graph) -> list[Suspect]:
    """Columns whose value all but decides the class, of a graph that came from tables."""
    if graph.encoding is None or graph.labels is None:
        return []
    nodes = np.flatnonzero(graph.labels >= 0)
    if nodes.size > LOOKED_AT:
        nodes = np.sort(generator(0).choice(nodes, LOOKED_AT, replace=False))
    codes = graph.labels[nodes]
    sizes = np.bincount(codes)
    enough = max(ENOUGH_LABELS, RANGES * int(np.count_nonzero(sizes)) * GROUP)
    if nodes.size < enough or sizes.max() > LARGEST_CLASS * nodes.size:
        return []
    given = graph.attributes[nodes]
    table = given if isinstance(given, np.ndarray) else given.toarray()
    found, at = [], 0
    for column in graph.encoding.used:
        own = table[:, at : at + len(column.attributes)]
        at += len(column.attributes)
        groups = _ranges(own, codes) if column.kind == NUMBER else _different(own)
        if (groups.max() + 1) * GROUP <= nodes.size:
            share = _share(groups, codes)
            if share >= SUSPICIOUS:
                found.append(Suspect(column.name, share))
    return found


def _ranges(values: np.ndarray[Any, Any], codes: IntArray) -> IntArray:
    """The few ranges of a number that tell the classes apart best."""
    from sklearn.tree import DecisionTreeClassifier

    ranges = DecisionTreeClassifier(max_leaf_nodes=RANGES * len(np.unique(codes)), random_state=0)
    return _codes(ranges.fit(values, codes).apply(values))


def _different(rows: np.ndarray[Any, Any]) -> IntArray:
    return _codes(np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1))


def _codes(groups: np.ndarray[Any, Any]) -> IntArray:
    return np.unique(groups, return_inverse=True)[1].astype(np.int64)


def _share(groups: IntArray, codes: IntArray) -> float:
    """How many labels are right if each group answers with its commonest class."""
    table = np.zeros((groups.max() + 1, codes.max() + 1), np.int64)
    np.add.at(table, (groups, codes), 1)
    return float(table.max(axis=1).sum() / codes.size)
