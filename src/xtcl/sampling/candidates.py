"""The best candidates of a block of nodes: by score, then by similarity, then by chance.

Hundreds of candidates share a pattern and so a score. Equal scores are ranked by the similarity of
one relation, where one is chosen, and equal similarities by a seeded shuffle of the nodes. The
shuffle leaves no tie, so the result is the same for any block size.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from xtcl.relations.rows import NO_NODE, Candidates


class TopB(NamedTuple):
    """The best candidates of a block of nodes, best first, on the device."""

    nodes: Tensor  # int64 [b, number], NO_NODE where there are no more
    scores: Tensor  # float32 [b, number], -inf there


class Shuffle:
    """A random order of the nodes, rotated by a random offset for every query node."""

    def __init__(self, num_nodes: int, seed: int, device: torch.device) -> None:
        rng = np.random.default_rng([seed, num_nodes])
        self.num_nodes = num_nodes
        self.place = torch.from_numpy(rng.permutation(num_nodes)).to(device)
        self.offset = torch.from_numpy(rng.integers(num_nodes, size=num_nodes)).to(device)

    def __call__(self, queries: Tensor, nodes: Tensor | None = None) -> Tensor:
        """Place of each of `nodes` [b, c], or of all, in the order of its query: in [0, 1)."""
        place = self.place if nodes is None else self.place[nodes]
        return ((place + self.offset[queries, None]) % self.num_nodes).double() / self.num_nodes


def best_candidates(found: Candidates, queries: Tensor, shuffle: Shuffle, number: int) -> TopB:
    """The `number` best candidates of each of `queries` [b]."""
    tie = shuffle(queries, found.node)
    if found.similarity is not None:
        # Similarities that differ by less than 2^-26 are ranked by the shuffle.
        tie = found.similarity.double() + tie * 2.0**-26
    wide = min(number, found.score.shape[1])
    column, score = _best_columns(found.score, tie, wide)
    node = column if found.node is None else found.node.gather(1, column)
    node = node.masked_fill(torch.isneginf(score), NO_NODE)
    padding = (0, number - wide)
    return TopB(
        torch.nn.functional.pad(node, padding, value=NO_NODE),
        torch.nn.functional.pad(score, padding, value=-torch.inf),
    )


def _best_columns(score: Tensor, tie: Tensor, number: int) -> tuple[Tensor, Tensor]:
    """Columns and scores of the `number` best of each row by (score, tie)."""
    cutoff = torch.topk(score, number, dim=1).values[:, -1:]
    # Ties matter only at the cut-off: higher scores are chosen, lower ones are not.
    key = torch.where(score > cutoff, torch.inf, torch.where(score == cutoff, tie, -torch.inf))
    chosen = torch.topk(key, number, dim=1).indices
    best_score, best_tie = score.gather(1, chosen), tie.gather(1, chosen)
    by_tie = torch.argsort(best_tie, dim=1, descending=True, stable=True)
    by_score = torch.argsort(best_score.gather(1, by_tie), dim=1, descending=True, stable=True)
    order = by_tie.gather(1, by_score)
    return chosen.gather(1, order), best_score.gather(1, order)
