"""Folds for fitting the stumps on pairs that the relations have not already seen.

With the training labels inside them, the label relations look 0.99 precise on training pairs and
are 0.8 precise on others; for links, Link *is* the target. So each fold hides its own answers from
the relations and counts only pairs of hidden answers. `folds=0` is the paper's literal reading: one
fold that hides nothing.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from xtcl.errors import DataError, UsageError
from xtcl.relations.view import TrainingView
from xtcl.sampling.fold import Fold

Indicator = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""I_t(u, v) of the paper for all u [b] and v [c] at once: bool [b, c]."""

MAX_QUERIES = 1024
"""Rows per fold of links. The counts of a fold cost O(rows x V); this many pin a precision down."""


def label_folds(
    view: TrainingView,
    alike: Indicator,
    folds: int,
    rng: np.random.Generator,
    labelled: np.ndarray | None = None,
) -> list[Fold]:
    """Folds over the `labelled` nodes, among which `alike` says which two match.

    Left out, they are the nodes with training labels.
    """
    labelled = np.flatnonzero(view.labels >= 0) if labelled is None else labelled
    if len(labelled) < 2:
        raise DataError(
            f"The sampler needs two labelled training nodes and got {len(labelled)}. "
            "Give more labels, or a split with more training nodes."
        )
    if folds == 0:
        return [_pairs_among(view, labelled, alike)]
    if folds < 2:
        raise UsageError(f"crossfit={folds} must be 0 (off) or at least 2.")
    parts = _stratified_parts(view.labels, labelled, min(folds, len(labelled) // 2), rng)
    return [_pairs_among(view.hiding_labels(part), part, alike) for part in parts]


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
        return [_pairs_among(view, linked, lambda u, v: view.adjacency[u][:, v].toarray() > 0)]
    if folds < 2:
        raise UsageError(f"crossfit={folds} must be 0 (off) or at least 2.")
    parts = np.array_split(rng.permutation(links.shape[1]), min(folds, links.shape[1]))
    return [
        _all_pairs(view.hiding_links(links[:, part]), _sample(linked, rng), links[:, part])
        for part in parts
    ]


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


def _pairs_among(view: TrainingView, nodes: np.ndarray, alike: Indicator) -> Fold:
    def judge(queries: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        found = np.asarray(alike(queries, nodes))
        expected = (len(queries), len(nodes))
        if found.shape != expected or not np.isin(found, (0, 1)).all():
            raise UsageError(
                f"The task's function must say True or False (or 1 or 0) for each pair, as an "
                f"array of shape {list(expected)} for {expected[0]} nodes u and {expected[1]} "
                f"nodes v, but gave {found.dtype} of shape {list(found.shape)}."
            )
        return found.astype(bool), queries[:, None] != nodes

    return Fold(view, nodes, nodes, judge)


def _all_pairs(view: TrainingView, queries: np.ndarray, links: np.ndarray) -> Fold:
    """Pairs of `queries` with all nodes that `view` does not link; `links` are the matches."""
    target = TrainingView.adjacency_of(links, view.num_nodes)
    everyone = np.arange(view.num_nodes)

    def judge(nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        counted = (nodes[:, None] != everyone) & (view.adjacency[nodes].toarray() == 0)
        return target[nodes].toarray() > 0, counted

    return Fold(view, queries, everyone, judge)
