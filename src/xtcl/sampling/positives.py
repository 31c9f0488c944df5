"""The B best candidates of every node.

Candidates are ranked by their score f_u(v). Hundreds share a pattern and so a score, and the
tie-break is part of the method: first the similarity of one chosen relation (attribute distribution
by default, random where it is missing), then a seeded shuffle of the nodes that is rotated for
every u. The shuffle leaves no tie, so the result is the same for any block size. A node is never
its own positive, and neither is a node that is above for no relation: nothing speaks for it. Where
candidates run out the row is filled with -1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from xtcl.relations.pattern_rows import PatternRows, all_nodes
from xtcl.relations.relation import SimilarityRows
from xtcl.relations.sparse import dense_rows, to_device
from xtcl.sampling.patterns import encode, margin_table
from xtcl.sampling.stumps import Stumps, sigmoid

NOBODY = -1


@dataclass(frozen=True)
class Positives:
    """The best candidates of every node, best first."""

    nodes: np.ndarray  # int64 [V, B], NOBODY where there are no more
    scores: np.ndarray  # float32 [V, B], the margin y_hat; -inf where nobody

    @property
    def filled(self) -> np.ndarray:
        """Which places hold a node."""
        return np.asarray(self.nodes != NOBODY)

    @property
    def chances(self) -> np.ndarray:
        """f_u(v), the chance of being alike, [V, B]; 0 where nobody."""
        return sigmoid(self.scores)

    def likely(self, least_chance: float) -> Positives:
        """Those alike with at least this chance, and every node's best in any case."""
        kept = self.chances >= least_chance
        kept[:, :1] = True
        return Positives(
            np.where(kept, self.nodes, NOBODY), np.where(kept, self.scores, np.float32(-np.inf))
        )

    def precision(self, labels: np.ndarray) -> float:
        """Share of positives with the label of their node, among pairs of known labels."""
        partner = labels[self.nodes]
        known = self.filled & (labels[:, None] >= 0) & (partner >= 0)
        return float((partner == labels[:, None])[known].mean())


class Shuffle:
    """A random order of the nodes, started at another place for every query node."""

    def __init__(self, num_nodes: int, seed: int, device: torch.device) -> None:
        rng = np.random.default_rng([seed, num_nodes])
        self.num_nodes = num_nodes
        self.place = torch.from_numpy(rng.permutation(num_nodes)).to(device)
        self.start = torch.from_numpy(rng.integers(num_nodes, size=num_nodes)).to(device)

    def __call__(self, nodes: Tensor) -> Tensor:
        """Place of every node in the order of each query, [b, V] in [0, 1)."""
        return ((self.place + self.start[nodes, None]) % self.num_nodes).double() / self.num_nodes


def find_positives(
    rows: PatternRows,
    stumps: Stumps,
    number: int,
    *,
    seed: int,
    height: int,
    tie_break: SimilarityRows | int | None = None,
    exclude: sp.csr_array | None = None,
    progress: Callable[[int], None] = lambda done: None,
) -> Positives:
    """The `number` best candidates of every node, `height` nodes at a time.

    `tie_break` are the rows of a relation, or the place of one that `rows` compute anyway.
    """
    shuffle = Shuffle(rows.num_nodes, seed, rows.device)
    margins = margin_table(stumps)
    table = torch.tensor(margins, dtype=torch.float32, device=rows.device)
    unwanted = None if exclude is None else to_device(exclude, rows.device)
    found, scores = [], []
    everyone = all_nodes(rows.num_nodes)
    with rows.over(everyone) as passing:
        for nodes in passing.blocks(everyone, height):
            place = tie_break if isinstance(tie_break, int) else None
            score, kept = block_scores(passing, table, nodes, keep=place)
            similarity = kept if not isinstance(tie_break, SimilarityRows) else tie_break(nodes)
            if unwanted is not None:
                score.masked_fill_(dense_rows(unwanted, nodes) > 0, -torch.inf)
            tie = shuffle(nodes)
            if similarity is not None:
                # The shuffle decides between similarities that differ by less than 2^-26.
                tie = similarity.double() + tie * 2.0**-26
            best = _best(score, tie, min(number, rows.num_nodes - 1))
            found.append(best[0].cpu().numpy())
            scores.append(best[1].cpu().numpy())
            progress(len(nodes))
    short = number - found[0].shape[1]
    padding = ((0, 0), (0, short))
    return Positives(
        np.pad(np.concatenate(found), padding, constant_values=NOBODY),
        np.pad(np.concatenate(scores), padding, constant_values=-np.inf),
    )


def block_scores(
    rows: PatternRows, table: Tensor, nodes: Tensor, keep: int | None = None
) -> tuple[Tensor, Tensor | None]:
    """y_hat of all pairs of a block, [b, V]: the entry of `table` at the code of their pattern.

    Also the similarities of the relation at the place `keep`.
    """
    kept: list[Tensor] = []

    def levels() -> Iterator[Tensor]:
        for place, relation in enumerate(rows.by_relation):
            if place == keep:
                similarities, level = relation.both(nodes)
                kept.append(similarities)
                yield level
            else:
                yield relation.levels(nodes)

    codes = encode(levels(), len(rows.relations), len(rows.quantiles))
    return table[codes.int()], kept[0] if kept else None


def _best(score: Tensor, tie: Tensor, number: int) -> tuple[Tensor, Tensor]:
    """Nodes and scores of the `number` best of each row by (score, tie)."""
    cutoff = torch.topk(score, number, dim=1).values[:, -1:]
    # Ties matter only at the cut-off: whatever scores higher is in, whatever scores lower is out.
    key = torch.where(score > cutoff, torch.inf, torch.where(score == cutoff, tie, -torch.inf))
    chosen = torch.topk(key, number, dim=1).indices
    best_score, best_tie = score.gather(1, chosen), tie.gather(1, chosen)
    by_tie = torch.argsort(best_tie, dim=1, descending=True, stable=True)
    by_score = torch.argsort(best_score.gather(1, by_tie), dim=1, descending=True, stable=True)
    order = by_tie.gather(1, by_score)
    best_score, chosen = best_score.gather(1, order), chosen.gather(1, order)
    return chosen.masked_fill(torch.isneginf(best_score), NOBODY), best_score
