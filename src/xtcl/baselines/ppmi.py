"""Positive pointwise mutual information of nodes that random walks visit together."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch_geometric.nn.conv.gcn_conv import gcn_norm
from torch_geometric.utils import to_torch_csr_tensor

from xtcl.errors import UsageError
from xtcl.learning.encoders.remembered import Remembered
from xtcl.learning.sparse_product import sparse_product
from xtcl.relations.sparse import quiet_sparse


def random_walks(
    edge_index: Tensor, num_nodes: int, walks: int, steps: int, generator: torch.Generator
) -> Tensor:
    """`walks` walks from every node, [V walks, steps + 1], where to stay is a step like any other.

    So they are walks on A + I, and an isolated node has some too. `edge_index` holds both
    directions of each link, sorted by the first end. Cost O(V walks steps), on the device.
    """
    degree = torch.bincount(edge_index[0], minlength=num_nodes)
    begin = degree.cumsum(0) - degree
    # The entry at the end is where the last nodes look when they stay; it is never used.
    ends = torch.cat([edge_index[1], edge_index.new_zeros(1)])
    here = torch.arange(num_nodes, device=edge_index.device).repeat_interleave(walks)
    path = [here]
    for _ in range(steps):
        draw = torch.rand(len(here), generator=generator, device=here.device, dtype=torch.float64)
        choices = degree[here]
        choice = (draw * (choices + 1)).long().minimum(choices)
        here = torch.where(choice < choices, ends[begin[here] + choice], here)
        path.append(here)
    return torch.stack(path, dim=1)


def pair_counts(walks: Tensor, num_nodes: int) -> tuple[Tensor, Tensor]:
    """How often two nodes share a walk: pairs [2, n], sorted, each in both orders, and counts [n].

    Every two places of a walk count once in each order; a node at both of them is a pair with
    itself, twice. Cost O(n log n) for n = walks (steps + 1)^2 places.
    """
    places = torch.combinations(torch.arange(walks.shape[1], device=walks.device))
    u, v = walks[:, places[:, 0]].flatten(), walks[:, places[:, 1]].flatten()
    keys = torch.cat([u * num_nodes + v, v * num_nodes + u])
    keys, counts = torch.unique(keys, return_counts=True)
    return torch.stack([keys // num_nodes, keys % num_nodes]), counts


def positive_information(pairs: Tensor, counts: Tensor, num_nodes: int) -> tuple[Tensor, Tensor]:
    r""":math:`\max(0, \log \frac{N c_{uv}}{c_u c_v})` for counts with sums c_u and N: [2, n], [n].

    Pairs where it is 0 are left out. Computed in double precision. Cost O(n).
    """
    shares = counts.double() / counts.sum()
    sums = torch.zeros(num_nodes, dtype=torch.float64, device=shares.device)
    sums = sums.index_add(0, pairs[0], shares)
    information = torch.log(shares / (sums[pairs[0]] * sums[pairs[1]]))
    kept = information > 0
    return pairs[:, kept], information[kept]


class PPMISmoothing(nn.Module):
    r"""One step of smoothing with :math:`D^{-1/2} P D^{-1/2}`; D holds the row sums of P.

    :math:`P_{uv}` is the positive pointwise mutual information of u and v on random walks: Zhuang
    and Ma, "Dual Graph Convolutional Networks", WWW 2018. The walks, like initial weights, follow
    from the state of torch's generator when the module is made. They are drawn once for the same
    links: O(V walks) time and memory for walks of one step; a pass costs O(n h) for n entries of P,
    which are never more than the pairs that were met.
    """

    def __init__(self, walks: int, steps: int = 1) -> None:
        super().__init__()
        for name, value in {"walks": walks, "steps": steps}.items():
            if value < 1:
                raise UsageError(f"{name}={value} must be at least 1.")
        self.walks, self.steps = walks, steps
        self.seed = int(torch.randint(2**31, ()))
        self._matrix: Remembered[Tensor] = Remembered()

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Smooth `x` over nodes that walks along the links `edge_index` join."""
        matrix = self._matrix.get(
            lambda: self.matrix(edge_index, len(x)).to(x.dtype), (edge_index,), (len(x), x.dtype)
        )
        return sparse_product(matrix, matrix, x)  # symmetric

    def matrix(self, edge_index: Tensor, num_nodes: int) -> Tensor:
        """The normalised P as a CSR tensor in double precision."""
        generator = torch.Generator(edge_index.device).manual_seed(self.seed)
        walks = random_walks(edge_index, num_nodes, self.walks, self.steps, generator)
        links, weights = positive_information(*pair_counts(walks, num_nodes), num_nodes)
        links, weights = gcn_norm(links, weights, num_nodes, add_self_loops=False)
        with quiet_sparse():
            matrix: Tensor = to_torch_csr_tensor(links, weights, size=(num_nodes, num_nodes))
        return matrix
