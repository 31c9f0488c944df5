"""Rows that need no training as link predictors: a scorer chosen by hidden links."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from xtcl.tasks.answers import LinkAnswer
from xtcl.tasks.link_head import LinkHead, fit_link_head
from xtcl.tasks.link_scorer_choice import HiddenLinks, choose_scorer
from xtcl.tasks.metrics import auc
from xtcl.tasks.training_side import TrainingSide

PAIR_BYTES = 2**30
"""Memory a scorer's fit may take. Attributes are far wider than embeddings."""


class LinkRows(NamedTuple):
    """The best scorer for some rows, and its AUC on the hidden links."""

    head: LinkHead
    auc: float

    @staticmethod
    def judged(links: HiddenLinks, rows: np.ndarray, seed: int) -> LinkRows:
        """Choose among all scorers; `rows` [V, d] must come from the graph without the links."""
        few = [_sample(pairs, max_pairs(rows.shape[1]) // 2, seed) for pairs in links.kept]
        head = choose_scorer(replace(links, kept=(few[0], few[1])), rows, seed)
        return LinkRows(head, auc(*(head.score(rows, pairs) for pairs in links.hidden)))


def answer_links(chosen: LinkHead, side: TrainingSide, rows: np.ndarray, seed: int) -> LinkAnswer:
    """A scorer of the chosen kind and strength, fitted on all training links."""
    head = fit_link_head(
        chosen.kind,
        rows,
        side.graph.edges,
        side.negatives,
        strengths=[chosen.strength_],
        seed=seed,
        max_pairs=max_pairs(rows.shape[1]),
    )
    return LinkAnswer(lambda pairs: head.score(rows, pairs))


def max_pairs(width: int) -> int:
    """How many pairs of rows a fit may use: it takes about 48 bytes for each of their numbers."""
    return min(50_000, max(2, PAIR_BYTES // (48 * width)))


def _sample(pairs: np.ndarray, limit: int, seed: int) -> np.ndarray:
    if pairs.shape[1] <= limit:
        return pairs
    return pairs[:, np.random.default_rng(seed).permutation(pairs.shape[1])[:limit]]
