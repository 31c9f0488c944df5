"""Cross-fitting folds, and labels of pairs: which two nodes are alike for the task.

A relation that reads the training labels has a precision of 0.99 on training pairs and of 0.8 on
others; for links, Link *is* the target. So each fold hides some labels or links from the relations,
and only pairs whose label is hidden are counted. `folds=0` follows the paper to the letter: one
fold that hides nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from xtcl.errors import DataError, UsageError
from xtcl.relations.sparse import is_among
from xtcl.relations.view import TrainingView

MAX_QUERIES = 1024
"""Most query rows of a fold of links. Counting costs O(rows x V), and this many are precise."""


def label_folds(
    view: TrainingView,
    alike: Indicator | None,
    folds: int,
    rng: np.random.Generator,
    labelled: np.ndarray | None = None,
) -> list[Fold]:
    """Folds over the `labelled` nodes. Two of them match where `alike` is true.

    By default, the nodes are those with training labels, and nodes of one class match.
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
    return [pairs_among(view.without_labels(part), part) for part in parts]


def link_folds(view: TrainingView, folds: int, rng: np.random.Generator) -> list[Fold]:
    """Folds over the training links; two nodes match when they are linked.

    A pair that is linked in the view of the relations is no candidate and is not counted.
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
    every_node = np.arange(view.num_nodes)

    def all_pairs(part: np.ndarray) -> Fold:
        seen = view.without_links(links[:, part])
        target = TrainingView.adjacency_of(links[:, part], view.num_nodes)
        queries = _sample(linked, rng)
        labels = label_pairs_by_link(target, queries, every_node, known=seen.adjacency)
        return Fold(seen, queries, every_node, labels)

    return [all_pairs(part) for part in parts]


def pair_folds(view: TrainingView, pairs: np.ndarray, alike: ArrayLike) -> list[Fold]:
    """One fold of the given `pairs` [2, n]; `alike` [n] marks those that match.

    It hides nothing from the relations: the view must not hold the labels of the pairs. A pair that
    is given twice counts once.
    """
    answers = np.asarray(alike)
    if answers.shape != pairs.shape[1:] or not np.isin(answers, (0, 1)).all():
        raise UsageError(
            f"alike must say True or False (or 1 or 0) for each of the {pairs.shape[1]} pairs, not "
            f"be an array of {answers.dtype} {list(answers.shape)}."
        )
    if not pairs.shape[1]:
        raise DataError("The sampler needs pairs to learn from and got none: give pairs=[2, n].")
    if (itself := pairs[0] == pairs[1]).any():
        raise UsageError(
            f"pairs= has node {pairs[0, itself][0]} with itself, which is no pair: leave it out."
        )
    keys, first, place = np.unique(
        pairs[0] * view.num_nodes + pairs[1], return_index=True, return_inverse=True
    )
    matches = answers.astype(bool)[first]
    if len(other := np.flatnonzero(matches[place] != answers)):
        u, v = pairs[:, other[0]].tolist()
        raise DataError(f"alike says both True and False of the pair ({u}, {v}): give it once.")
    labels = label_given_pairs(keys, matches, view.num_nodes)
    return [Fold(view, np.unique(pairs[0]), np.unique(pairs[1]), labels)]


def _sample(nodes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """At most MAX_QUERIES of `nodes`, in order."""
    if len(nodes) <= MAX_QUERIES:
        return nodes
    return np.sort(rng.choice(nodes, MAX_QUERIES, replace=False))


def _stratified_parts(
    labels: np.ndarray, nodes: np.ndarray, parts: int, rng: np.random.Generator
) -> list[np.ndarray]:
    """`nodes` in parts with the same share of each class."""
    shuffled = rng.permutation(nodes)
    dealt = shuffled[np.argsort(labels[shuffled], kind="stable")]
    return [np.sort(dealt[start::parts]) for start in range(parts)]


@dataclass(frozen=True)
class Fold:
    """Pairs (u, v) from `queries` x `candidates` whose label I_t(u, v) is known.

    The sampler computes the relations from `view`. In cross-fitting, the view hides what
    `pair_labels` reads. A node is never paired with itself.
    """

    view: TrainingView
    queries: np.ndarray
    candidates: np.ndarray
    pair_labels: PairLabels

    def dense_labels(self, queries: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """I_t(u, v) of `queries` with all candidates, and which pairs count: each bool [b, c]."""
        shape = len(queries), len(self.candidates)
        row = np.repeat(np.arange(shape[0]), shape[1])
        node = np.tile(self.candidates, shape[0])
        pairs = (torch.from_numpy(part) for part in (queries, row, node))
        labelled = self.pair_labels(torch.device("cpu"))(*pairs)
        return labelled.alike.view(shape).numpy(), labelled.counted.view(shape).numpy()


# Labels of pairs are computed for the few pairs that are listed, on their device. Totals count all
# pairs of a query with the candidates, so that the pairs that are not listed follow by subtraction.
# Totals follow from sizes of classes or numbers of links; only a function of the user is called for
# all pairs.


Indicator = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""I_t(u, v) of the paper for all u [b] and v [c] at once: bool [b, c]."""


_PAIRS_PER_CALL = 2**24
"""Most pairs of one call of an indicator."""


class LabelledPairs(NamedTuple):
    """Labels of listed pairs, and counts of all pairs of the queries with the candidates."""

    alike: Tensor  # bool [m], I_t
    counted: Tensor  # bool [m], which of the listed pairs count
    totals: Tensor  # int64 [b, 2], how many pairs of each query count: others, and matches


PairLabeller = Callable[[Tensor, Tensor, Tensor], LabelledPairs]
"""Takes queries u [b], and for each of m listed pairs the place of u among them and v."""


PairLabels = Callable[[torch.device], PairLabeller]
"""Takes the device of the listed pairs, and gives their labeller there."""


def label_pairs_by_class(classes: np.ndarray, candidates: np.ndarray) -> PairLabels:
    """Nodes of one class are alike: `classes` [V]. Cost: O(b + m)."""
    sizes = np.bincount(classes[candidates], minlength=classes.max() + 1)
    itself = np.isin(np.arange(len(classes)), candidates)

    def labels(device: torch.device) -> PairLabeller:
        totals = _totals(len(candidates) - itself, sizes[classes] - itself).to(device)
        kind = torch.from_numpy(classes).to(device)

        def labeller(queries: Tensor, row: Tensor, node: Tensor) -> LabelledPairs:
            u = queries[row]
            return LabelledPairs(kind[u] == kind[node], u != node, totals[queries])

        return labeller

    return labels


def label_pairs_by_link(
    target: sp.csr_array,
    queries: np.ndarray,
    candidates: np.ndarray,
    known: sp.csr_array | None = None,
) -> PairLabels:
    """Nodes that `target` links are alike; pairs that are `known` do not count.

    Both are symmetric 0/1 matrices [V, V] without loops or a pair in common, and all linked nodes
    are candidates. Labels are for `queries` only. Cost: O(m log n) for n links of the queries.
    """
    count = target.shape[0]
    seen = known if known is not None else target[:, :0]
    pairs = len(candidates) - np.isin(np.arange(count), candidates)

    def labels(device: torch.device) -> PairLabeller:
        matches, links = _keys(target, queries, device), _keys(seen, queries, device)
        totals = _totals(pairs - np.diff(seen.indptr), np.diff(target.indptr)).to(device)

        def labeller(asked: Tensor, row: Tensor, node: Tensor) -> LabelledPairs:
            u = asked[row]
            key = u * count + node
            counted = (u != node) & ~is_among(key, links)
            return LabelledPairs(is_among(key, matches), counted, totals[asked])

        return labeller

    return labels


def label_given_pairs(keys: np.ndarray, alike: np.ndarray, num_nodes: int) -> PairLabels:
    """Only the given pairs count. Their `keys` u V + v [n] are ascending, and `alike` [n] is I_t.

    Cost: O(m log n).
    """
    u = keys // num_nodes
    pairs, matches = (np.bincount(each, minlength=num_nodes) for each in (u, u[alike]))

    def labels(device: torch.device) -> PairLabeller:
        totals = _totals(pairs, matches).to(device)
        given, matching = (torch.from_numpy(each).to(device) for each in (keys, keys[alike]))

        def labeller(queries: Tensor, row: Tensor, node: Tensor) -> LabelledPairs:
            key = queries[row] * num_nodes + node
            return LabelledPairs(is_among(key, matching), is_among(key, given), totals[queries])

        return labeller

    return labels


def label_pairs_by_indicator(indicator: Indicator, candidates: np.ndarray) -> PairLabels:
    """Nodes are alike where the function is true. It is called for all pairs. Cost: O(b c)."""
    place = np.zeros(candidates.max(initial=-1) + 1, dtype=np.int64)
    place[candidates] = np.arange(len(candidates))
    height = max(1, _PAIRS_PER_CALL // max(len(candidates), 1))

    def call(queries: np.ndarray, row: np.ndarray, node: np.ndarray) -> tuple[np.ndarray, Tensor]:
        nothing = np.zeros(0, dtype=np.int64)
        listed, pairs, matches = [nothing.astype(bool)], [nothing], [nothing]
        for first in range(0, len(queries), height):
            block = queries[first : first + height]
            found = _checked(indicator(block, candidates), len(block), len(candidates))
            counted = block[:, None] != candidates
            pairs.append(counted.sum(axis=1))
            matches.append((found & counted).sum(axis=1))
            start, end = np.searchsorted(row, [first, first + height])
            listed.append(found[row[start:end] - first, place[node[start:end]]])
        totals = _totals(np.concatenate(pairs), np.concatenate(matches))
        return np.concatenate(listed), totals

    def labels(device: torch.device) -> PairLabeller:
        def labeller(queries: Tensor, row: Tensor, node: Tensor) -> LabelledPairs:
            alike, totals = call(*(part.cpu().numpy() for part in (queries, row, node)))
            counted = queries[row] != node
            return LabelledPairs(torch.from_numpy(alike).to(device), counted, totals.to(device))

        return labeller

    return labels


def _totals(pairs: np.ndarray, matches: np.ndarray) -> Tensor:
    return torch.from_numpy(np.stack([pairs - matches, matches], axis=1).astype(np.int64))


def _keys(matrix: sp.csr_array, queries: np.ndarray, device: torch.device) -> Tensor:
    """All entries (u, v) in the rows `queries` as u V + v, ascending."""
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
