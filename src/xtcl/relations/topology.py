"""Topology similarity: the mutual information of two neighbourhoods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from xtcl.relations.common_neighbours import common_neighbours
from xtcl.relations.kernels.use import kernels_run_on
from xtcl.relations.relation import Relation, Rows
from xtcl.relations.view import LINKS, TrainingView


def mutual_information(degree_u: Tensor, degree_v: Tensor, shared: Tensor, count: int) -> Tensor:
    """I(S_u; S_v) in nats of two 0/1 vectors with given sums and overlap, in double precision."""
    p_u, p_v, both = degree_u / count, degree_v / count, shared / count
    total = torch.zeros_like(p_u + p_v + both)
    for joint, left, right in (
        (both, p_u, p_v),
        (p_u - both, p_u, 1 - p_v),
        (p_v - both, 1 - p_u, p_v),
        (1 - p_u - p_v + both, 1 - p_u, 1 - p_v),
    ):
        # A cell smaller than one node in `count` is empty but for rounding: 0 log 0 = 0.
        filled = joint > 0.5 / count
        ratio = torch.where(filled, joint / (left * right), 1.0)
        total += torch.where(filled, joint, 0.0) * torch.log(ratio)
    # Rounding would leave 1e-17 where there is nothing, and s > 0 decides in sparse rows.
    independent = shared * count == degree_u * degree_v
    return torch.where(independent, 0.0, total.clamp_min(0.0))


@dataclass(frozen=True)
class Topology(Relation):
    r"""How much knowing one node's neighbours tells about the other's.

    Row u of A is read as V draws of a 0/1 variable :math:`S_u`:

    .. math:: s(u, v) = I(S_u; S_v) = \sum_{a, b \in \{0, 1\}} p_{ab} \log
              \frac{p_{ab}}{p_u(a) p_v(b)}

    with :math:`p_u(1) = d_u / V` and :math:`p_{11} = |N_u \cap N_v| / V`.

    Range: [0, log 2]. Symmetric. Two nodes that share nothing still get a little: that their
    neighbours exclude each other is information too.
    Cost: O(E) memory, O(b (E + V)) for b rows; the logarithms of pairs that share nothing depend on
    two degrees only and come from a table.
    Isolated node: 0 to every other node.
    Citation: Dong, Wu, Luo, Ge and Wang, "Node Representation Learning in Graph via
    Node-to-Neighbourhood Mutual Information Maximization", CVPR 2022.

    >>> from xtcl.relations.examples import path_of_four, rows
    >>> rows(Topology(), path_of_four(), [0])
    [[0.562, 0.216, 0.216, 0.085]]
    """

    name: ClassVar[str] = "topology"
    title: ClassVar[str] = "Topology Sim."
    reads: ClassVar[frozenset[str]] = frozenset({LINKS})
    row_by_row: ClassVar[bool] = True

    def without_overlap(self, view: TrainingView) -> tuple[Tensor, Tensor, Tensor]:
        """The degrees that occur [K], which each node has [V], and s of nodes that share nothing.

        Such an s depends on the two degrees only: float32 [K, K].
        """
        degrees, which = np.unique(np.diff(view.adjacency.indptr), return_inverse=True)
        kinds = torch.tensor(degrees, dtype=torch.float64, device=view.device)
        none = torch.zeros_like(kinds)
        disjoint = mutual_information(kinds[:, None], kinds, none, view.num_nodes).float()
        return kinds, torch.tensor(which, device=view.device), disjoint

    def prepare(self, view: TrainingView) -> Rows:
        """Table of the values without overlap; pairs that share neighbours are put in on top."""
        count = view.num_nodes
        shared = common_neighbours(view.adjacency, view.device)
        kinds, kind, disjoint = self.without_overlap(view)

        if kernels_run_on(view.device):
            from xtcl.relations.kernels.information import inform_

            total = torch.tensor(count, dtype=torch.float64, device=view.device)

            def inform(nodes: Tensor) -> Tensor:
                found = shared(nodes)
                inform_(found, nodes, kind, kinds, disjoint, total)
                return found

            return inform

        def compute(nodes: Tensor) -> Tensor:
            overlap = shared(nodes)
            similarity = disjoint[kind[nodes]][:, kind]
            row, column = torch.nonzero(overlap, as_tuple=True)
            similarity[row, column] = mutual_information(
                kinds[kind[nodes[row]]],
                kinds[kind[column]],
                overlap[row, column].double(),
                count,
            ).float()
            return similarity

        return compute
