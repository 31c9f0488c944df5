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

from xtcl.ranks import alone, ranks
from xtcl.relations.capped_rows import CappedRows
from xtcl.relations.pattern_rows import PatternRows, all_nodes
from xtcl.relations.relation import Relation
from xtcl.sampling.listed_scores import listed_scores
from xtcl.sampling.patterns import margin_table
from xtcl.sampling.scored import NOBODY, Best
from xtcl.sampling.shuffle import Shuffle
from xtcl.sampling.stumps import Stumps, sigmoid
from xtcl.sampling.whole_scores import whole_scores


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


def find_positives(
    rows: PatternRows | CappedRows,
    stumps: Stumps,
    number: int,
    *,
    seed: int,
    height: int,
    tie_break: Relation | None = None,
    exclude: sp.csr_array | None = None,
    progress: Callable[[int], None] = lambda done: None,
) -> Positives:
    """The `number` best candidates of every node, `height` nodes at a time.

    Ranks share the nodes, and each of them gets the candidates of all.
    """
    table = torch.tensor(margin_table(stumps), dtype=torch.float32, device=rows.device)
    shuffle = Shuffle(rows.num_nodes, seed, rows.device)
    everyone = ranks()
    own = everyone.share(all_nodes(rows.num_nodes))
    settings = (own, height, table, shuffle, tie_break, exclude, number)
    blocks: Iterator[Best]
    if isinstance(rows, CappedRows):
        blocks = listed_scores(rows, *settings)
    else:
        blocks = whole_scores(rows, *settings)
    nodes = [torch.zeros(0, number, dtype=torch.int64, device=rows.device)]
    scores = [torch.zeros(0, number, device=rows.device)]
    with alone():
        for best in blocks:
            nodes.append(best.nodes)
            scores.append(best.scores)
            progress(everyone.number * len(best.nodes))  # the others are about as far
        found = [torch.cat(parts).cpu().numpy() for parts in (nodes, scores)]
    return Positives(*(everyone.gather(part) for part in found))
