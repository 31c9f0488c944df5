"""Accuracy of two embeddings of PyG on the splits of the comparison, for docs/compare.md.

    PYTHONPATH=src python -m xtcl.lab.scripts.pyg_embeddings [--splits 5] [--out results/pyg]

Cora, a tenth of the labels for training, splits from seed 0: those of `xtcl evaluate cora`. Neither
reads labels, so one embedding serves all splits, and the first split's seconds are those of
training it. Both go under the logistic regression that xtcl uses.

- `DeepGraphInfomax` with the encoder of PyG's example: one convolution of 512 units with PReLU, 300
  epochs at a rate of 0.001;
- node2vec with p = q = 1 in 128 dimensions. PyG's class wants a compiled package for its walks, so
  they are drawn here; walks of 20, windows of 10, ten walks a node, one negative and a rate of 0.01
  are those of PyG's example, for twenty epochs.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.nn import DeepGraphInfomax, GCNConv

from xtcl.graph.datasets.load import load_dataset
from xtcl.graph.graph import Graph
from xtcl.lab.scripts.study import Predict, by_logistic, write_ways

INFOMAX_EPOCHS, WALK_EPOCHS = 300, 20
WALK_LENGTH, WINDOW, WALKS_PER_NODE, BATCH = 20, 10, 10, 1024


class Encoder(nn.Module):
    """One convolution, as in PyG's example."""

    def __init__(self, columns: int, width: int = 512) -> None:
        super().__init__()
        self.conv, self.act = GCNConv(columns, width), nn.PReLU(width)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Embeddings [V, width]."""
        h: Tensor = self.act(self.conv(x, edge_index))
        return h


def _shuffled(x: Tensor, edge_index: Tensor) -> tuple[Tensor, Tensor]:
    return x[torch.randperm(len(x))], edge_index


@cache
def infomax(graph: Graph) -> np.ndarray:
    """The embedding of Deep Graph Infomax."""
    torch.manual_seed(0)
    x = torch.from_numpy(sp.csr_array(graph.attributes).toarray()).float()
    x = x / x.sum(dim=1, keepdim=True).clamp_min(1e-12)
    edge_index = torch.from_numpy(np.stack(sp.csr_array(graph.adjacency).nonzero())).long()
    model = DeepGraphInfomax(
        512,
        Encoder(x.shape[1]),
        summary=lambda z, *_: z.mean(dim=0).sigmoid(),
        corruption=_shuffled,
    )
    optimiser = torch.optim.Adam(model.parameters(), lr=0.001)
    for _ in range(INFOMAX_EPOCHS):
        optimiser.zero_grad()
        model.loss(*model(x, edge_index)).backward()
        optimiser.step()
    with torch.no_grad():
        return np.asarray(model(x, edge_index)[0].numpy())


def _walks(links: sp.csr_array, starts: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A uniform walk from each start; who has no neighbour stays."""
    degree, walk = np.diff(links.indptr), [starts]
    for _ in range(WALK_LENGTH - 1):
        here = walk[-1]
        place = links.indptr[here] + (rng.random(len(here)) * degree[here]).astype(np.int64)
        step = links.indices[np.minimum(place, len(links.indices) - 1)]
        walk.append(np.where(degree[here] > 0, step, here))
    return np.stack(walk, axis=1)


@cache
def node2vec(graph: Graph) -> np.ndarray:
    """The embedding of walks without bias."""
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    links = sp.csr_array(graph.adjacency)
    table = nn.Embedding(graph.num_nodes, 128, sparse=True)
    optimiser = torch.optim.SparseAdam(list(table.parameters()), lr=0.01)
    for _ in range(WALK_EPOCHS):
        starts = rng.permutation(np.repeat(np.arange(graph.num_nodes), WALKS_PER_NODE))
        for first in range(0, len(starts), BATCH):
            walks = _walks(links, starts[first : first + BATCH], rng)
            windows = [walks[:, at : at + WINDOW] for at in range(WALK_LENGTH - WINDOW + 1)]
            near = torch.from_numpy(np.concatenate(windows))
            far = torch.randint(graph.num_nodes, near[:, 1:].shape)
            centre = table(near[:, :1])
            pulled, pushed = ((centre * table(each)).sum(-1) for each in (near[:, 1:], far))
            loss = -(F.logsigmoid(pulled).mean() + F.logsigmoid(-pushed).mean())
            optimiser.zero_grad()
            torch.autograd.backward(loss)
            optimiser.step()  # type: ignore[no-untyped-call]
    return np.asarray(table.weight.detach().numpy())


GRAPH = load_dataset("cora")  # the same object for all splits, so that an embedding is kept

EMBEDDINGS: dict[str, Predict] = {
    "DeepGraphInfomax and logistic regression": lambda _, side, seed: by_logistic(
        infomax(GRAPH), side, seed
    ),
    "node2vec and logistic regression": lambda _, side, seed: by_logistic(
        node2vec(GRAPH), side, seed
    ),
}

if __name__ == "__main__":
    write_ways(__doc__, "torch-geometric", "pyg", EMBEDDINGS)
