"""The graph attention network, trained on the task itself."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812
from torch_geometric.nn import GATConv

from xtcl.baselines.supervised import Supervised, SupervisedSettings

HEADS = 8


class TwoLayerGAT(nn.Module):
    """Eight heads side by side, ELU, then one head; dropout on inputs and on attention.

    Veličković and others, "Graph Attention Networks", ICLR 2018. Cost of a pass: O(V D h + E h)
    time, O(E h) memory.
    """

    def __init__(self, in_features: int, hidden: int, width: int, dropout: float) -> None:
        super().__init__()
        self.first = GATConv(in_features, hidden // HEADS, heads=HEADS, dropout=dropout)
        self.second = GATConv(hidden, width, dropout=dropout)
        self.dropout = dropout

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Class scores or embeddings, [V, width]."""
        h = F.elu(self.first(F.dropout(x, self.dropout, self.training), edge_index))
        out: Tensor = self.second(F.dropout(h, self.dropout, self.training), edge_index)
        return out


class GAT(Supervised):
    """TODO."""

    name: ClassVar[str] = "gat"
    title: ClassVar[str] = "GAT"
    settings: ClassVar[dict[str, SupervisedSettings]] = {
        "nodes": SupervisedSettings(
            hidden=64, dropout=0.6, learning_rate=0.005, weight_decay=5e-4, epochs=200
        ),
        "links": SupervisedSettings(
            hidden=256, dropout=0.2, learning_rate=0.005, weight_decay=0.0, epochs=200, width=128
        ),
    }

    def network(self, in_features: int, width: int, settings: SupervisedSettings) -> nn.Module:
        """Two layers."""
        return TwoLayerGAT(in_features, settings.hidden, width, settings.dropout)
