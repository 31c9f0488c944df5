"""Graphs and encoders for tests of mini-batches."""

from __future__ import annotations

from collections.abc import Callable

import torch
from dense_layers import normal, randomise
from torch import Tensor, nn
from torch_geometric.nn import GCNConv, SAGEConv

from xtcl.nn.ensemble import EncoderEnsemble
from xtcl.nn.gat import GATEncoder
from xtcl.nn.gcn import GCNEncoder

D = 5


class Two(nn.Module):
    """Two of PyG's layers, as a user might have them."""

    def __init__(self, kind: type[nn.Module], num_hops: int | None) -> None:
        super().__init__()
        self.convs = nn.ModuleList([kind(D, 6), kind(6, 4)])
        self.shown: list[int] = []
        if num_hops is not None:
            self.num_hops = num_hops

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        self.shown.append(len(x))
        h: Tensor = self.convs[1](self.convs[0](x, edge_index).tanh(), edge_index)
        return h


ENCODERS: dict[str, Callable[[], nn.Module]] = {
    "linear": lambda: GCNEncoder(D, 4, dropout=0.0),
    "pagerank": lambda: GCNEncoder(D, 4, hops=4, restart=0.2, dropout=0.0),
    "two layers": lambda: GCNEncoder(D, 4, layers=2, hops=1, dropout=0.0),
    "three layers": lambda: GCNEncoder(D, 4, layers=3, hops=1, restart=0.1, dropout=0.0),
    "batch norm": lambda: GCNEncoder(D, 4, layers=2, hops=1, batch_norm=True, dropout=0.0),
    "gat": lambda: GATEncoder(D, 4, heads=2, hops=1, dropout=0.0),
    "two gat": lambda: GATEncoder(D, 4, layers=2, heads=2, dropout=0.0),
    "own sage": lambda: Two(SAGEConv, 2),
    "own gcn": lambda: Two(GCNConv, 3),
}
LAYERED = [name for name in ENCODERS if not name.startswith("own")]


def made(name: str) -> nn.Module:
    """An encoder with weights and statistics that no initialisation would give."""
    encoder = ENCODERS[name]().double()
    randomise(encoder, seed=3)
    return encoder


def joined() -> EncoderEnsemble:
    """Members of all kinds, one of them of a user that does not tell how far it looks."""
    members = [made("pagerank"), made("batch norm"), made("two gat"), made("own sage")]
    members.append(Two(SAGEConv, None).double())
    return EncoderEnsemble(members, [1.0, 0.5, 0.2, 0.7, 0.3], attributes=0.9, trust=0.4).double()


def hubs(count: int = 40) -> tuple[Tensor, Tensor]:
    """Attributes and links of a graph with a hub (0), a tail, and isolated nodes from 35 up."""
    star = [(0, v) for v in range(1, 15)]
    around = [(v, v + 1) for v in range(10, count - 6)]
    across = [(v, v + 9) for v in range(2, count - 15, 3)]
    ends = torch.tensor(sorted(set(star + around + across))).T
    both = torch.cat([ends, ends.flip(0)], dim=1)
    return normal(count, D), both[:, both[0].argsort(stable=True)]


def draws(seed: int = 0) -> torch.Generator:
    """A seeded generator."""
    return torch.Generator().manual_seed(seed)
