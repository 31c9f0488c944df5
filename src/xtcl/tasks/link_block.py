"""Scores of whole blocks of pairs, by matrix products."""

from __future__ import annotations

import torch
from torch import Tensor

from xtcl.learning.unit_rows import unit_rows
from xtcl.tasks.fitted import FittedEmbedding
from xtcl.tasks.link_head import LinkHead
from xtcl.tasks.link_signals import SignalHead, with_relations
from xtcl.tasks.rows import Floats


class LinkBlocks:
    """What `SignalHead.score` gives, to rounding, for every pair of some nodes with some others.

    Cost of b nodes with m others: b m d, and the relations' rows of the b nodes; memory that of
    some thirty numbers a pair, and the embedding in float64.
    """

    def __init__(self, head: SignalHead, fitted: FittedEmbedding) -> None:
        self.head = head
        self.fitted = fitted
        self.rows = fitted.embedding.double()
        self.unit = unit_rows(self.rows)

    def scores(self, nodes: Tensor, others: Tensor) -> Floats:
        """Log-odds [b, m]; no node may have more links than any of the others has."""
        cosine = self.unit[nodes] @ self.unit[others].T
        score = _scores(self.head.scorer, self.rows, self.unit, nodes, others, cosine)
        shape = tuple(score.shape)
        if len(self.head.names) == 1:
            return float(self.head.weight_[0]) * score.cpu().numpy() + self.head.bias_
        pairs = torch.stack([nodes.repeat_interleave(len(others)), others.repeat(len(nodes))])
        compared, alike = (part.flatten().cpu().numpy() for part in (score, cosine))
        signals = with_relations(self.fitted, compared, alike, pairs.cpu().numpy())
        odds: Floats = (signals @ self.head.weight_ + self.head.bias_).reshape(shape)
        return odds


def _scores(
    scorer: LinkHead, rows: Tensor, unit: Tensor, nodes: Tensor, others: Tensor, cosine: Tensor
) -> Tensor:
    if scorer.kind == "cosine":
        return cosine
    if scorer.kind == "inner":
        return rows[nodes] @ rows[others].T
    weight = torch.tensor(scorer.weight_, device=rows.device)
    return (weight * unit[nodes]) @ unit[others].T + scorer.bias_
