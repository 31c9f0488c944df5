"""Folds for fitting the stumps on pairs that the relations have not already seen.

With the training labels inside them, the label relations look 0.99 precise on training pairs and
are 0.8 precise on others; for links, Link *is* the target. So each fold hides its own answers from
the relations and counts only pairs of hidden answers. `folds=0` is the paper's literal reading: one
fold that hides nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from xtcl.errors import DataError, UsageError
from xtcl.relations.sparse import is_among
from xtcl.relations.view import TrainingView

MAX_QUERIES = 1024
"""Rows per fold of links. The counts of a fold cost O(rows x V); this many pin a precision down."""


def label_folds(
    view: TrainingView,
    alike: Indicator | None,
    folds: int,
    rng: np.random.Generator,
    labelled: np.ndarray | None = None,
) -> list[Fold]:
    """Folds over the `labelled` nodes, among which `alike` says which two match.

    Left out, they are the nodes with training labels. Without `alike` nodes of one class match.
    """

    def pairs_among(seen: TrainingView, nodes: np.ndarray) -> Fold:
        if alike is None:
            return Fold(seen, nodes, nodes, label_pairs_by_class(view.labels, nodes))
        return Fold(seen, nodes, nodes, label_pairs_by_indicator(alike, nodes))

    labelled = np.flatnonzero(view.labels >= 0) if labelled is None else labelled
    if len(labelled) < 2:
        raise DataError(
            f"The sampler needs two labelled training nodes and got {len(labelled)}. "
            "Give more labels, or a split with more training nodes."
        )
    if folds == 0:
        return [pairs_among(view, labelled)]
    if folds < 2:
        raise UsageError(f"crossfit={folds} must be 0 (off) or at least 2.")
    parts = _stratified_parts(view.labels, labelled, min(folds, len(labelled) // 2), rng)
    return [pairs_among(view.hiding_labels(part), part) for part in parts]


def link_folds(view: TrainingView, folds: int, rng: np.random.Generator) -> list[Fold]:
    """Folds over the training links; two nodes match when they are linked.

    A pair that is linked in what the relations see is no candidate any more and does not count.
    With `folds=0` the pairs are V_L x V_L, all linked nodes with each other (Algorithm 1).
    """
    upper = view.adjacency.tocoo()
    once = upper.coords[0] < upper.coords[1]
    links = np.stack([upper.coords[0][once], upper.coords[1][once]]).astype(np.int64)
    if links.shape[1] < 2:
        raise DataError(
            f"The sampler needs two training links and got {links.shape[1]}. "
            "Give more links, or a split with more training links."
        )
    linked = np.unique(links)
    if folds == 0:
        return [Fold(view, linked, linked, label_pairs_by_link(view.adjacency, linked, linked))]
    if folds < 2:
        raise UsageError(f"crossfit={folds} must be 0 (off) or at least 2.")
    parts = np.array_split(rng.permutation(links.shape[1]), min(folds, links.shape[1]))
    everyone = np.arange(view.num_nodes)

    def all_pairs(part: np.ndarray) -> Fold:
        seen = view.hiding_links(links[:, part])
        target = TrainingView.adjacency_of(links[:, part], view.num_nodes)
        queries = _sample(linked, rng)
        judge = label_pairs_by_link(target, queries, everyone, known=seen.adjacency)
        return Fold(seen, queries, everyone, judge)

    return [all_pairs(part) for part in parts]


def _sample(nodes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """At most MAX_QUERIES of `nodes`, in order."""
    if len(nodes) <= MAX_QUERIES:
        return nodes
    return np.sort(rng.choice(nodes, MAX_QUERIES, replace=False))


def _stratified_parts(
    labels: np.ndarray, nodes: np.ndarray, parts: int, rng: np.random.Generator
) -> list[np.ndarray]:
    """`nodes` dealt out so that every part gets its share of each class."""
    shuffled = rng.permutation(nodes)
    dealt = shuffled[np.argsort(labels[shuffled], kind="stable")]
    return [np.sort(dealt[start::parts]) for start in range(parts)]


@dataclass(frozen=True)
class Fold:
    """Pairs (u, v) from `queries` x `candidates` whose I_t(u, v) is known.

    The sampler computes the relations from `view` and asks `judge` which pairs are alike. In
    cross-fitting the view hides what `judge` knows. A node is never paired with itself.
    """

    view: TrainingView
    queries: np.ndarray
    candidates: np.ndarray
    judge: PairLabels

    def whole(self, queries: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """I_t(u, v) of `queries` with all candidates, and which pairs count: each bool [b, c]."""
        shape = len(queries), len(self.candidates)
        row = np.repeat(np.arange(shape[0]), shape[1])
        node = np.tile(self.candidates, shape[0])
        asked = (torch.from_numpy(part) for part in (queries, row, node))
        answers = self.judge(torch.device("cpu"))(*asked)
        return answers.alike.view(shape).numpy(), answers.counted.view(shape).numpy()


# Who knows which pairs are alike: the classes, the links, or a function of the user's.
#
# A judge answers for the few pairs that are listed, where they lie, and says how many pairs every
# query makes with its candidates. So pairs that nobody lists are counted by subtraction, and but
# for
# a function, which has to be asked, no judge looks at them: totals follow from sizes of classes or
# numbers of links.


Indicator = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""I_t(u, v) of the paper for all u [b] and v [c] at once: bool [b, c]."""


MAX_ASKED = 2**24
"""Pairs that an indicator is asked for at once."""


class LabelledPairs(NamedTuple):
    """What a judge says of listed pairs, and of all pairs of the queries with candidates."""

    alike: Tensor  # bool [m], I_t
    counted: Tensor  # bool [m], which of the listed pairs count
    totals: Tensor  # int64 [b, 2], how many pairs of each query count: others, and matches


PairLabeller = Callable[[Tensor, Tensor, Tensor], LabelledPairs]
"""Takes queries u [b]; of the listed pairs, row by row, the place of u in them and v, each [m]."""


PairLabels = Callable[[torch.device], PairLabeller]
"""Takes the device where pairs will be listed, and brings there what it knows."""


def label_pairs_by_class(classes: np.ndarray, candidates: np.ndarray) -> PairLabels:
    """Alike are nodes of one class, `classes` [V]. Cost: O(b + m)."""
    sizes = np.bincount(classes[candidates], minlength=classes.max() + 1)
    itself = np.isin(np.arange(len(classes)), candidates)

    def judge(device: torch.device) -> PairLabeller:
        totals = _totals(len(candidates) - itself, sizes[classes] - itself).to(device)
        kind = torch.from_numpy(classes).to(device)

        def judging(queries: Tensor, row: Tensor, node: Tensor) -> LabelledPairs:
            u = queries[row]
            return LabelledPairs(kind[u] == kind[node], u != node, totals[queries])

        return judging

    return judge


def label_pairs_by_link(
    target: sp.csr_array,
    queries: np.ndarray,
    candidates: np.ndarray,
    known: sp.csr_array | None = None,
) -> PairLabels:
    """Alike are nodes that `target` links; pairs that are `known` do not count.

    Both are symmetric 0/1 matrices [V, V] without loops or a pair in common, and all linked nodes
    are candidates. Asked will be for `queries`. Cost: O(m log n) for the n links of the queries.
    """
    count = target.shape[0]
    seen = known if known is not None else target[:, :0]
    pairs = len(candidates) - np.isin(np.arange(count), candidates)

    def judge(device: torch.device) -> PairLabeller:
        matches, links = _keys(target, queries, device), _keys(seen, queries, device)
        totals = _totals(pairs - np.diff(seen.indptr), np.diff(target.indptr)).to(device)

        def judging(asked: Tensor, row: Tensor, node: Tensor) -> LabelledPairs:
            u = asked[row]
            key = u * count + node
            counted = (u != node) & ~is_among(key, links)
            return LabelledPairs(is_among(key, matches), counted, totals[asked])

        return judging

    return judge


def label_pairs_by_indicator(alike: Indicator, candidates: np.ndarray) -> PairLabels:
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

    def judge(device: torch.device) -> PairLabeller:
        def judging(queries: Tensor, row: Tensor, node: Tensor) -> LabelledPairs:
            said, totals = ask(*(part.cpu().numpy() for part in (queries, row, node)))
            counted = queries[row] != node
            return LabelledPairs(torch.from_numpy(said).to(device), counted, totals.to(device))

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
