"""Who knows which pairs are alike: the classes, the links, or a function of the user's.

A judge answers for the few pairs that are listed, and says how many pairs every query makes with
its candidates. So pairs that nobody lists are counted by subtraction, and but for a function, which
has to be asked, no judge looks at them: totals follow from sizes of classes or numbers of links.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from xtcl.errors import UsageError
from xtcl.relations.sparse import holds

Indicator = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""I_t(u, v) of the paper for all u [b] and v [c] at once: bool [b, c]."""

MAX_ASKED = 2**24
"""Pairs that an indicator is asked for at once."""


class Answers(NamedTuple):
    """What a judge says of listed pairs, and of all pairs of the queries with candidates."""

    alike: np.ndarray  # bool [m], I_t
    counted: np.ndarray  # bool [m], which of the listed pairs count
    totals: np.ndarray  # int64 [b, 2], how many pairs of each query count: others, and matches


Judge = Callable[[np.ndarray, np.ndarray, np.ndarray], Answers]
"""Takes queries u [b]; of the listed pairs, row by row, the place of u in them and v, each [m]."""


def judge_by_class(classes: np.ndarray, candidates: np.ndarray) -> Judge:
    """Alike are nodes of one class, `classes` [V]. Cost: O(b + m)."""
    sizes = np.bincount(classes[candidates], minlength=classes.max() + 1)
    among = np.isin(np.arange(len(classes)), candidates)

    def judge(queries: np.ndarray, row: np.ndarray, node: np.ndarray) -> Answers:
        own, itself = classes[queries], among[queries]
        matches = sizes[own] - itself
        pairs = len(candidates) - itself
        return Answers(own[row] == classes[node], queries[row] != node, _totals(pairs, matches))

    return judge


def judge_by_links(
    target: sp.csr_array, candidates: np.ndarray, known: sp.csr_array | None = None
) -> Judge:
    """Alike are nodes that `target` links; pairs that are `known` do not count.

    Both are symmetric 0/1 matrices [V, V] without loops or a pair in common, and all linked nodes
    are candidates. Cost: O(m log m) and the links of the queries.
    """
    among = np.isin(np.arange(target.shape[0]), candidates)

    def judge(queries: np.ndarray, row: np.ndarray, node: np.ndarray) -> Answers:
        pairs = len(candidates) - among[queries].astype(np.int64)
        counted = queries[row] != node
        if known is not None:
            pairs -= np.diff(known.indptr)[queries]
            counted &= ~holds(known, queries, row, node)
        matches = np.diff(target.indptr)[queries]
        return Answers(holds(target, queries, row, node), counted, _totals(pairs, matches))

    return judge


def judge_by_indicator(alike: Indicator, candidates: np.ndarray) -> Judge:
    """Alike is what the function says, which is asked for all pairs. Cost: O(b c)."""
    place = np.zeros(candidates.max(initial=-1) + 1, dtype=np.int64)
    place[candidates] = np.arange(len(candidates))
    height = max(1, MAX_ASKED // max(len(candidates), 1))

    def judge(queries: np.ndarray, row: np.ndarray, node: np.ndarray) -> Answers:
        nothing = np.zeros(0, dtype=np.int64)
        said, pairs, matches = [nothing.astype(bool)], [nothing], [nothing]
        for first in range(0, len(queries), height):
            asked = queries[first : first + height]
            found = _checked(alike(asked, candidates), len(asked), len(candidates))
            counted = asked[:, None] != candidates
            pairs.append(counted.sum(axis=1))
            matches.append((found & counted).sum(axis=1))
            start, end = np.searchsorted(row, [first, first + height])
            said.append(found[row[start:end] - first, place[node[start:end]]])
        return Answers(
            np.concatenate(said),
            queries[row] != node,
            _totals(np.concatenate(pairs), np.concatenate(matches)),
        )

    return judge


def _totals(pairs: np.ndarray, matches: np.ndarray) -> np.ndarray:
    return np.stack([pairs - matches, matches], axis=1).astype(np.int64)


def _checked(found: object, queries: int, candidates: int) -> np.ndarray:
    answers = np.asarray(found)
    expected = (queries, candidates)
    if answers.shape != expected or not np.isin(answers, (0, 1)).all():
        raise UsageError(
            f"The task's function must say True or False (or 1 or 0) for each pair, as an "
            f"array of shape {list(expected)} for {expected[0]} nodes u and {expected[1]} "
            f"nodes v, but gave {answers.dtype} of shape {list(answers.shape)}."
        )
    return answers.astype(bool)
