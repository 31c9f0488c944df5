"""Folds for fitting the stumps on pairs that the relations have not already seen.

With the training labels inside them, the label relations look 0.99 precise on training pairs and
are 0.8 precise on others; for links, Link *is* the target. So each fold hides its own answers from
the relations and counts only pairs of hidden answers. `folds=0` is the paper's literal reading: one
fold that hides nothing.
"""

from __future__ import annotations

import numpy as np

from xtcl.errors import DataError, UsageError
from xtcl.relations.view import TrainingView
from xtcl.sampling.fold import Fold
from xtcl.sampling.judges import Indicator, judge_by_class, judge_by_indicator, judge_by_links

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
            return Fold(seen, nodes, nodes, judge_by_class(view.labels, nodes))
        return Fold(seen, nodes, nodes, judge_by_indicator(alike, nodes))

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
        return [Fold(view, linked, linked, judge_by_links(view.adjacency, linked, linked))]
    if folds < 2:
        raise UsageError(f"crossfit={folds} must be 0 (off) or at least 2.")
    parts = np.array_split(rng.permutation(links.shape[1]), min(folds, links.shape[1]))
    everyone = np.arange(view.num_nodes)

    def all_pairs(part: np.ndarray) -> Fold:
        seen = view.hiding_links(links[:, part])
        target = TrainingView.adjacency_of(links[:, part], view.num_nodes)
        queries = _sample(linked, rng)
        judge = judge_by_links(target, queries, everyone, known=seen.adjacency)
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
