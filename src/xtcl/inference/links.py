"""The likeliest missing links of every node."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike
from scipy.special import expit
from torch import Tensor

from xtcl.errors import UsageError
from xtcl.graph.graph import Graph
from xtcl.graph.splits import LinkSplit, pair_keys
from xtcl.inference.tables import AnswerTable, chances, names_of
from xtcl.progress import Progress
from xtcl.tasks.link_head import LinkBlocks
from xtcl.tasks.results import LinkScores

if TYPE_CHECKING:
    from xtcl.estimator import XTCL


NODES_PER_BLOCK = 2**19
"""Pairs that are scored at a time."""


NOTHING = float("-inf")


class TopPairs(NamedTuple):
    """The best scores [V, k] of every node, and which nodes they are for."""

    scores: Tensor
    nodes: Tensor

    def improve(self, rows: slice, scores: Tensor, nodes: Tensor) -> None:
        """Take what is better of further scores [b, m] of some rows, for `nodes` [m]."""
        number = self.scores.shape[1]
        further = nodes.expand(scores.shape)
        joined = torch.cat([self.scores[rows], scores], dim=1)
        self.scores[rows], places = joined.topk(number, dim=1)
        self.nodes[rows] = torch.cat([self.nodes[rows], further], dim=1).gather(1, places)


def likely_links(model: XTCL, k: int = 5) -> AnswerTable:
    """The `k` likeliest missing links of every node, the best first: columns node, other, score.

    Never a node itself, nor a link of the data, also of those kept for the test. Every pair is
    scored once, in blocks of rows: O(V^2) time, O(V k) memory and a block.
    """
    if k < 1:
        raise UsageError(f"k={k} must be at least 1.")
    _link_answer(model)
    known = model.training_data_.graph.with_edges(known_links(model)).adjacency
    # A pair is scored from the end with fewer links, and counts for both.
    order = _by_degree(model)
    blocks = LinkBlocks(model.head_, model.fitted_task_.fitted)
    total = len(order)
    best = TopPairs(
        torch.full((total, k), NOTHING, dtype=torch.float64), torch.full((total, k), -1)
    )
    start = 0
    progress = model.progress or Progress()
    with progress.stage("scoring pairs", total) as advance:
        while start < total:
            end = min(total, start + max(1, NODES_PER_BLOCK // (total - start)))
            nodes, others = order[start:end], order[start:]
            scores = blocks.scores(torch.from_numpy(nodes), torch.from_numpy(others))
            scores[np.tri(*scores.shape, dtype=np.bool_)] = (
                NOTHING  # itself, and pairs seen already
            )
            scores[known[nodes][:, others].nonzero()] = NOTHING
            found = torch.from_numpy(scores)
            best.improve(slice(start, end), found, torch.from_numpy(others))
            best.improve(slice(start, total), found.T, torch.from_numpy(nodes))
            advance(end - start)
            start = end
    return _table(model.training_data_.graph, order, best)


def score_pairs(model: XTCL, pairs: ArrayLike) -> AnswerTable:
    """Scores of given pairs [2, n], and whether the data have such a link already."""
    answer = _link_answer(model)
    ends = np.asarray(pairs)
    names = names_of(model.training_data_.graph)
    alone = np.flatnonzero(ends[0] == ends[1])
    if alone.size:
        raise UsageError(
            f"'{names[ends[0, alone[0]]]}' is paired with itself; a link has two ends."
        )
    rank = np.argsort(_by_degree(model))
    scores = answer.score(np.where(rank[ends[0]] > rank[ends[1]], ends[::-1], ends))
    linked, asked = (
        pair_keys(np.sort(each, axis=0), len(names)) for each in (known_links(model), ends)
    )
    return AnswerTable(
        {
            "node": names[ends[0]],
            "other": names[ends[1]],
            "score": chances(expit(scores)),
            "linked": np.isin(asked, linked),
        }
    )


def known_links(model: XTCL) -> np.ndarray:
    """All links [2, E] of the data: those of the training, and of the test."""
    edges = model.training_data_.graph.edges
    split = getattr(model, "split_", None)
    return np.hstack([edges, split.test]) if isinstance(split, LinkSplit) else edges


def _link_answer(model: XTCL) -> LinkScores:
    answer = model._fitted().answer
    if not isinstance(answer, LinkScores):
        raise UsageError(
            "This model was fitted to classify nodes, and does not know how likely links are: fit "
            "one with `xtcl fit ... --task links --out ANOTHER`, and ask that."
        )
    return answer


def _by_degree(model: XTCL) -> np.ndarray:
    degrees = model.training_data_.graph.degrees
    return np.argsort(degrees, kind="stable")


def _table(graph: Graph, order: np.ndarray, best: TopPairs) -> AnswerTable:
    """The rows in the order of the nodes, without places that nothing was found for."""
    place = np.argsort(order)
    scores, others = best.scores.numpy()[place], best.nodes.numpy()[place]
    node, rank = np.nonzero(scores > NOTHING)
    names = names_of(graph)
    return AnswerTable(
        {
            "node": names[node],
            "other": names[others[node, rank]],
            "score": chances(expit(scores[node, rank])),
        }
    )
