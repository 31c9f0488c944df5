"""The graph in which every node points to the nodes with the most similar attributes."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from xtcl.errors import UsageError
from xtcl.graph.arrays import Attributes
from xtcl.relations.block_height import block_height
from xtcl.relations.factors import cosine_rows
from xtcl.relations.relation import Rows

TIE_BREAK = 1e-8
"""More than rounding in double precision, less than two Jaccard indices of bags of up to a few
thousand words can differ."""


def nearest_by_attributes(
    attributes: Attributes,
    count: int,
    device: torch.device,
    *,
    words: bool = False,
    height: int | None = None,
) -> Tensor:
    """Arcs [2, n] from each node to the `count` nodes most similar to it, sorted.

    The similarity is the cosine; with `words`, where all attributes are 0 or 1, Jaccard's index.
    Ties go to the lower node. A node is not its own neighbour, and nodes that are not similar at
    all are no neighbours: a node without attributes has none. Exact, in blocks of `height` rows.

    Cost O(V^2 D) time, O(V D + height V) memory.
    """
    if count < 1:
        raise UsageError(f"The number of neighbours, {count}, must be at least 1.")
    num_nodes, num_attributes = attributes.shape
    if num_attributes == 0 or num_nodes < 2:
        return torch.empty(2, 0, dtype=torch.long, device=device)
    dense = attributes.toarray() if sp.issparse(attributes) else np.asarray(attributes)
    x = torch.tensor(dense, dtype=torch.float32, device=device)
    rows = (jaccard_rows if words and is_binary(attributes) else cosine_rows)(x)
    nodes = torch.arange(num_nodes, device=device)
    lower_first = nodes.double() * (TIE_BREAK / num_nodes)
    arcs = []
    for part in torch.split(nodes, height or block_height(num_nodes)):
        similar = rows(part)
        similar[torch.arange(len(part), device=device), part] = 0.0
        nearest = (similar.double() - lower_first).topk(min(count, num_nodes - 1), dim=1).indices
        nearest = nearest.sort(dim=1).values
        place, column = torch.nonzero(similar.gather(1, nearest) > 0, as_tuple=True)
        arcs.append(torch.stack([part[place], nearest[place, column]]))
    return torch.cat(arcs, dim=1)


def is_binary(attributes: Attributes) -> bool:
    """Whether every attribute is 0 or 1."""
    values = attributes.data if sp.issparse(attributes) else attributes
    return bool(np.isin(values, (0, 1)).all())


def jaccard_rows(words: Tensor) -> Rows:
    """Words that two nodes share, as a share of those that either has; `words` are 0 or 1.

    Numbers of words are whole, so the counts are exact on any device and in any block.
    """
    sizes = words.sum(dim=1)

    def compute(nodes: Tensor) -> Tensor:
        both = words[nodes] @ words.T
        either = sizes[nodes, None] + sizes - both
        return both / either.clamp_min(1.0)

    return compute
