"""A perceptron that scores pairs by the element-wise product of their ends, beside an encoder."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from xtcl.baselines.link_loss import inner_product
from xtcl.tasks.answers import LinkAnswer
from xtcl.tasks.pair_features import checked_pairs, pair_scores

SCORED_AT_ONCE = 2**16


class PairPerceptron(nn.Module):
    r""":math:`w^\top g_2(g_1(z_u \odot z_v)) + c`, where :math:`g_i(p) = \text{ReLU}(W_i p + b_i)`.

    Three layers with dropout after each but the last, as in Li and others, "Evaluating Graph Neural
    Networks for Link Prediction: Current Pitfalls and New Benchmarking", NeurIPS 2023. Cost of n
    pairs: O(n h^2).
    """

    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.inner = nn.ModuleList(nn.Linear(width, width) for _ in range(2))
        self.last = nn.Linear(width, 1)
        self.dropout = dropout

    def forward(self, products: Tensor) -> Tensor:
        """Log-odds [n] of products [n, width]."""
        h = products
        for linear in self.inner:
            h = F.dropout(F.relu(linear(h)), self.dropout, self.training)
        found: Tensor = self.last(h)
        return found.squeeze(1)


class LinkNetwork(nn.Module):
    """An encoder of nodes and a scorer of pairs, trained as one; None is the inner product."""

    def __init__(self, encoder: nn.Module, scorer: PairPerceptron | None) -> None:
        super().__init__()
        self.encoder, self.scorer = encoder, scorer

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Embeddings [V, width]."""
        z: Tensor = self.encoder(x, edge_index)
        return z

    def score(self, products: Tensor) -> Tensor:
        """Log-odds [n] of the element-wise products [n, width] of two embeddings."""
        return inner_product(products) if self.scorer is None else self.scorer(products)

    def answer(self, z: Tensor) -> LinkAnswer:
        """Scores by embeddings [V, width] that the trained network gave."""
        if self.scorer is None:
            embedding = z.double().cpu().numpy()
            return LinkAnswer(lambda pairs: pair_scores(embedding, pairs, unit=False))
        self.eval()

        @torch.no_grad()
        def score(pairs: np.ndarray) -> np.ndarray:
            ends = torch.from_numpy(checked_pairs(pairs, len(z))).to(z.device)
            found = [self.score(z[u] * z[v]) for u, v in torch.split(ends, SCORED_AT_ONCE, dim=1)]
            return np.asarray(torch.cat(found).double().cpu().numpy())

        return LinkAnswer(score)
