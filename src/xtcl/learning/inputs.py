"""What the encoder gets to see of a graph."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from xtcl.graph.graph import Graph
from xtcl.learning.unit_rows import unit_rows
from xtcl.relations.sparse import dense_on

RANDOM_FEATURES = 256


def encoder_inputs(graph: Graph, device: torch.device) -> tuple[Tensor, Tensor]:
    """Attributes with rows of unit length, and links in both directions.

    A graph without attributes gets random ones. Smoothed over the links they tell where a node
    lies: a random projection of the powers of the adjacency (Chen and others, "Fast and Accurate
    Network Embeddings via Very Sparse Random Projection", CIKM 2019). Their seed is fixed, so that
    the same graph always gets the same.
    """
    if graph.has_attributes:
        x = dense_on(graph.attributes, device)
    else:
        generator = torch.Generator().manual_seed(0)
        x = torch.randn(graph.num_nodes, RANDOM_FEATURES, generator=generator)
    edge_index = torch.from_numpy(np.array(graph.edge_index))
    return unit_rows(x.to(device)), edge_index.to(device)
