"""Candidates of a block of nodes with their scores, and the best of them."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

NOBODY = -1


class Best(NamedTuple):
    """The best candidates of a block of nodes, where they were found: nobody waits for them."""

    nodes: Tensor  # int64 [b, number]
    scores: Tensor  # float32 [b, number]


class Scored(NamedTuple):
    """Candidates in columns: their score (-inf: none), what breaks ties, and who they are."""

    score: Tensor  # float32 [b, c]
    tie: Tensor  # float64 [b, c]
    node: Tensor | None  # int64 [b, c]; None where column v is node v

    def best(self, number: int) -> Best:
        """The `number` best of each row, best first; NOBODY where there are not so many."""
        wide = min(number, self.score.shape[1])
        place, score = _best(self.score, self.tie, wide)
        node = place if self.node is None else self.node.gather(1, place)
        node = node.masked_fill(torch.isneginf(score), NOBODY)
        padding = (0, number - wide)
        return Best(
            torch.nn.functional.pad(node, padding, value=NOBODY),
            torch.nn.functional.pad(score, padding, value=-torch.inf),
        )


def _best(score: Tensor, tie: Tensor, number: int) -> tuple[Tensor, Tensor]:
    """Columns and scores of the `number` best of each row by (score, tie)."""
    cutoff = torch.topk(score, number, dim=1).values[:, -1:]
    # Ties matter only at the cut-off: whatever scores higher is in, whatever scores lower is out.
    key = torch.where(score > cutoff, torch.inf, torch.where(score == cutoff, tie, -torch.inf))
    chosen = torch.topk(key, number, dim=1).indices
    best_score, best_tie = score.gather(1, chosen), tie.gather(1, chosen)
    by_tie = torch.argsort(best_tie, dim=1, descending=True, stable=True)
    by_score = torch.argsort(best_score.gather(1, by_tie), dim=1, descending=True, stable=True)
    order = by_tie.gather(1, by_score)
    best_score, chosen = best_score.gather(1, order), chosen.gather(1, order)
    return chosen, best_score
