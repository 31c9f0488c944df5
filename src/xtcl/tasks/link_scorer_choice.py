"""Which scorer of pairs to use, judged by training links hidden from a whole fit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from xtcl.graph.graph import Graph
from xtcl.learning.unit_rows import unit_rows
from xtcl.learning.watch import Judge
from xtcl.tasks.link_head import KINDS, LinkHead, fit_link_head
from xtcl.tasks.metrics import auc, device_auc
from xtcl.tasks.rows import Rows, checked_rows
from xtcl.tasks.training_side import TrainingSide


@dataclass(frozen=True)
class HiddenLinks:
    """Training links divided: a graph of the kept ones, and (links, non-links) of both parts."""

    graph: Graph
    kept: tuple[np.ndarray, np.ndarray]
    hidden: tuple[np.ndarray, np.ndarray]

    def judge(self, head: LinkHead, rows: Rows, device: torch.device | None = None) -> float:
        """The AUC of a scorer on the hidden part."""
        return auc(*(head.score(rows, pairs, device) for pairs in self.hidden))


def hide_links(side: TrainingSide, share: float, seed: int) -> HiddenLinks:
    """Hide a share of the training links, and of the training non-links."""
    rng = np.random.default_rng([seed, side.graph.num_edges])
    (hidden, kept), (hidden_non, kept_non) = (
        _divide(pairs, share, rng) for pairs in (side.graph.edges, side.negatives)
    )
    return HiddenLinks(side.graph.with_edges(kept), (kept, kept_non), (hidden, hidden_non))


def _divide(
    pairs: np.ndarray, share: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    order = rng.permutation(pairs.shape[1])
    cut = min(max(1, round(share * len(order))), len(order) - 1)
    return pairs[:, np.sort(order[:cut])], pairs[:, np.sort(order[cut:])]


def cosine_judge(links: HiddenLinks, device: torch.device) -> Judge:
    """Judges embeddings by the AUC of their cosines on the hidden links."""
    sides = [torch.from_numpy(np.array(pairs)).to(device) for pairs in links.hidden]

    def judge(embedding: Tensor) -> float:
        rows = unit_rows(embedding)
        return device_auc(*((rows[u] * rows[v]).sum(dim=1) for u, v in sides))

    return judge


def choose_scorer(
    links: HiddenLinks, embedding: Rows, seed: int, *, device: torch.device | None = None
) -> LinkHead:
    """The scorer with the best AUC on the hidden links, fitted on the kept ones."""
    rows = checked_rows(embedding, "The embedding", device)
    heads = [
        fit_link_head(kind, rows, *links.kept, seed=seed, validation=links.hidden, device=device)
        for kind in KINDS
    ]
    return max(heads, key=lambda head: links.judge(head, rows))


def fit_chosen(
    chosen: LinkHead,
    side: TrainingSide,
    embedding: Rows,
    seed: int,
    *,
    device: torch.device | None = None,
) -> LinkHead:
    """A scorer of the kind and strength of `chosen`, fitted on all training links."""
    return fit_link_head(
        chosen.kind,
        embedding,
        side.graph.edges,
        side.negatives,
        strengths=[chosen.strength_],
        seed=seed,
        device=device,
    )
