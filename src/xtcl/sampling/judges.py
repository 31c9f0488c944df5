"""Who knows which pairs are alike: the classes, the links, or a function of the user's.

A judge answers for the few pairs that are listed, where they lie, and says how many pairs every
query makes with its candidates. So pairs that nobody lists are counted by subtraction, and but for
a function, which has to be asked, no judge looks at them: totals follow from sizes of classes or
numbers of links.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from xtcl.errors import UsageError
from xtcl.relations.sparse import is_among

Indicator = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""I_t(u, v) of the paper for all u [b] and v [c] at once: bool [b, c]."""

MAX_ASKED = 2**24
"""Pairs that an indicator is asked for at once."""


class Answers(NamedTuple):
    """What a judge says of listed pairs, and of all pairs of the queries with candidates."""

    alike: Tensor  # bool [m], I_t
    counted: Tensor  # bool [m], which of the listed pairs count
    totals: Tensor  # int64 [b, 2], how many pairs of each query count: others, and matches


Judging = Callable[[Tensor, Tensor, Tensor], Answers]
"""Takes queries u [b]; of the listed pairs, row by row, the place of u in them and v, each [m]."""

Judge = Callable[[torch.device], Judging]
"""Takes the device where pairs will be listed, and brings there what it knows."""


def judge_by_class(classes: np.ndarray, candidates: np.ndarray) -> Judge:
    """Alike are nodes of one class, `classes` [V]. Cost: O(b + m)."""
    sizes = np.bincount(classes[candidates], minlength=classes.max() + 1)
    itself = np.isin(np.arange(len(classes)), candidates)

    def judge(device: torch.device) -> Judging:
        totals = _totals(len(candidates) - itself, sizes[classes] - itself).to(device)
        kind = torch.from_numpy(classes).to(device)

        def judging(queries: Tensor, row: Tensor, node: Tensor) -> Answers:
            u = queries[row]
            return Answers(kind[u] == kind[node], u != node, totals[queries])

        return judging

    return judge


def judge_by_links(
    target: sp.csr_array,
    queries: np.ndarray,
    candidates: np.ndarray,
    known: sp.csr_array | None = None,
) -> Judge:
    """Alike are nodes that `target` links; pairs that are `known` do not count.

    Both are symmetric 0/1 matrices [V, V] without loops or a pair in common, and all linked nodes
    are candidates. Asked will be for `queries`. Cost: O(m log n) for the n links of the queries.
    """
    count = target.shape[0]
    seen = known if known is not None else target[:, :0]
    pairs = len(candidates) - np.isin(np.arange(count), candidates)

    def judge(device: torch.device) -> Judging:
        matches, links = _keys(target, queries, device), _keys(seen, queries, device)
        totals = _totals(pairs - np.diff(seen.indptr), np.diff(target.indptr)).to(device)

        def judging(asked: Tensor, row: Tensor, node: Tensor) -> Answers:
            u = asked[row]
            key = u * count + node
            counted = (u != node) & ~is_among(key, links)
            return Answers(is_among(key, matches), counted, totals[asked])

        return judging

    return judge


def judge_by_indicator(alike: Indicator, candidates: np.ndarray) -> Judge:
    """Alike is what the function says, which is asked for all pairs. Cost: O(b c)."""
    place = np.zeros(candidates.max(initial=-1) + 1, dtype=np.int64)
    place[candidates] = np.arange(len(candidates))
    height = max(1, MAX_ASKED // max(len(candidates), 1))

    def ask(queries: np.ndarray, row: np.ndarray, node: np.ndarray) -> tuple[np.ndarray, Tensor]:
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
        totals = _totals(np.concatenate(pairs), np.concatenate(matches))
        return np.concatenate(said), totals

    def judge(device: torch.device) -> Judging:
        def judging(queries: Tensor, row: Tensor, node: Tensor) -> Answers:
            said, totals = ask(*(part.cpu().numpy() for part in (queries, row, node)))
            counted = queries[row] != node
            return Answers(torch.from_numpy(said).to(device), counted, totals.to(device))

        return judging

    return judge


def _totals(pairs: np.ndarray, matches: np.ndarray) -> Tensor:
    return torch.from_numpy(np.stack([pairs - matches, matches], axis=1).astype(np.int64))


def _keys(matrix: sp.csr_array, queries: np.ndarray, device: torch.device) -> Tensor:
    """All entries (u, v) in the rows `queries` as u V + v, rising."""
    asked = np.unique(queries)
    links = matrix[asked]
    u = np.repeat(asked, np.diff(links.indptr))
    return torch.from_numpy(np.sort(u * matrix.shape[0] + links.indices)).to(device)


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
