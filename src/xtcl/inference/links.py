"""The most likely missing links of every node, and scores of given pairs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike
from scipy.special import expit
from torch import Tensor

from xtcl.errors import UsageError, check_is_fitted
from xtcl.graph.graph import Graph
from xtcl.graph.splits import LinkSplit, pair_keys
from xtcl.inference.tables import ResultTable, names_of, round_probabilities
from xtcl.progress import progress_of
from xtcl.tasks.link_head import LinkBlocks
from xtcl.tasks.results import LinkScores

if TYPE_CHECKING:
    from xtcl.estimator import XTCL


_PAIRS_PER_BLOCK = 2**19
"""Pairs that are scored at a time."""

_EXCLUDED = float("-inf")
"""The score of a pair that is no candidate."""


def likely_links(model: XTCL, k: int = 5) -> ResultTable:
    """The `k` most likely missing links of every node, best first: columns node, other, score.

    A node is never paired with itself, nor with a neighbour, also not with one by a link that was
    held out for the test. Every pair is scored once, in blocks of rows: O(V^2) time, O(V k) memory
    and one block.
    """
    if k < 1:
        raise UsageError(f"k={k} must be at least 1.")
    _link_scores(model)
    known = model.training_data_.graph.with_edges(known_links(model)).adjacency
    # A pair is scored from the node with fewer links, and the score counts for both.
    order = _by_degree(model)
    blocks = LinkBlocks(model.head_, model.fitted_task_.fitted)
    total = len(order)
    best = _TopPairs(
        torch.full((total, k), _EXCLUDED, dtype=torch.float64), torch.full((total, k), -1)
    )
    start = 0
    progress = progress_of(model)
    with progress.stage("scoring pairs", total) as advance:
        while start < total:
            end = min(total, start + max(1, _PAIRS_PER_BLOCK // (total - start)))
            nodes, others = order[start:end], order[start:]
            scores = blocks.scores(torch.from_numpy(nodes), torch.from_numpy(others))
            # The node itself, and pairs of this block that are scored twice.
            scores[np.tri(*scores.shape, dtype=np.bool_)] = _EXCLUDED
            scores[known[nodes][:, others].nonzero()] = _EXCLUDED
            found = torch.from_numpy(scores)
            best.update(slice(start, end), found, torch.from_numpy(others))
            best.update(slice(start, total), found.T, torch.from_numpy(nodes))
            advance(end - start)
            start = end
    return _table(model.training_data_.graph, order, best)


def score_pairs(model: XTCL, pairs: ArrayLike) -> ResultTable:
    """Scores of given pairs [2, n], and whether the data have such a link already."""
    answer = _link_scores(model)
    ends = np.asarray(pairs)
    names = names_of(model.training_data_.graph)
    loops = np.flatnonzero(ends[0] == ends[1])
    if loops.size:
        raise UsageError(
            f"'{names[ends[0, loops[0]]]}' is paired with itself; a link has two ends."
        )
    rank = np.argsort(_by_degree(model))
    scores = answer.score(np.where(rank[ends[0]] > rank[ends[1]], ends[::-1], ends))
    linked, given = (
        pair_keys(np.sort(each, axis=0), len(names)) for each in (known_links(model), ends)
    )
    return ResultTable(
        {
            "node": names[ends[0]],
            "other": names[ends[1]],
            "score": round_probabilities(expit(scores)),
            "linked": np.isin(given, linked),
        }
    )


def known_links(model: XTCL) -> np.ndarray:
    """All links [2, E] of the data: those trained on, and those held out for the test."""
    edges = model.training_data_.graph.edges
    split = getattr(model, "split_", None)
    return np.hstack([edges, split.test]) if isinstance(split, LinkSplit) else edges


class _TopPairs(NamedTuple):
    """The best scores [V, k] of every node so far, and the other node of each."""

    scores: Tensor
    nodes: Tensor

    def update(self, rows: slice, scores: Tensor, nodes: Tensor) -> None:
        """Take in the scores [b, m] of some rows with `nodes` [m]."""
        k = self.scores.shape[1]
        candidates = nodes.expand(scores.shape)
        joined = torch.cat([self.scores[rows], scores], dim=1)
        self.scores[rows], places = joined.topk(k, dim=1)
        self.nodes[rows] = torch.cat([self.nodes[rows], candidates], dim=1).gather(1, places)


def _link_scores(model: XTCL) -> LinkScores:
    check_is_fitted(model)
    answer = model.fitted_task_.answer
    if not isinstance(answer, LinkScores):
        raise UsageError(
            "This model was fitted to classify nodes, and does not know how likely links are: fit "
            "one with `xtcl fit ... --task links --out ANOTHER`, and ask that."
        )
    return answer


def _by_degree(model: XTCL) -> np.ndarray:
    return np.argsort(model.training_data_.graph.degrees, kind="stable")


def _table(graph: Graph, order: np.ndarray, best: _TopPairs) -> ResultTable:
    """The rows in the order of the nodes, without empty places."""
    place = np.argsort(order)
    scores, others = best.scores.numpy()[place], best.nodes.numpy()[place]
    node, rank = np.nonzero(scores > _EXCLUDED)
    names = names_of(graph)
    return ResultTable(
        {
            "node": names[node],
            "other": names[others[node, rank]],
            "score": round_probabilities(expit(scores[node, rank])),
        }
    )
