"""AddXTCLEmbedding: a transform of PyG."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.transforms import BaseTransform

from xtcl.errors import DataError
from xtcl.estimator import XTCL
from xtcl.graph.graph import Graph
from xtcl.graph.node_split import NodeSplit

if TYPE_CHECKING:
    from torch_geometric.data import Data


class AddXTCLEmbedding(BaseTransform):  # type: ignore[misc]
    """Fits XTCL on a PyG `Data` and adds the embedding of its nodes.

    For nodes, labels count where `train_mask` is set, and nowhere else; without a mask, all of
    them do. For links, `edge_index` must hold training links only, as after `RandomLinkSplit`.

    Args:
        attr_name: where the embedding is put; None appends it to `x`, as PyG's own transforms do.
        parameters: those of `XTCL`, such as `task="links"` or `random_state=1`.

    """

    def __init__(self, attr_name: str | None = "xtcl_embedding", **parameters: Any) -> None:
        self.attr_name = attr_name
        self.parameters = parameters

    def forward(self, data: Data) -> Data:
        """`data` with the embedding, float32 [V, width]."""
        model = XTCL(**self.parameters)
        mask = data.get("train_mask")
        bare = copy(data)
        if mask is not None:
            del bare.train_mask  # a Graph would say that it does not read it
        graph = Graph.from_pyg(bare)
        split = None if mask is None or model.task != "nodes" else _training_nodes(mask, graph)
        rows = torch.from_numpy(model.fit(graph, split).embedding_).to(data.edge_index.device)
        if self.attr_name is not None:
            data[self.attr_name] = rows
        else:
            data.x = rows if data.x is None else torch.cat([data.x, rows.to(data.x.dtype)], dim=1)
        return data


def _training_nodes(mask: Tensor, graph: Graph) -> NodeSplit:
    if mask.shape != (graph.num_nodes,):
        raise DataError(
            f"train_mask has the shape {list(mask.shape)}, for {graph.num_nodes} nodes: give one "
            "split, such as train_mask[:, 0]."
        )
    known = mask.cpu().numpy().astype(bool)
    if graph.labels is not None:
        known &= graph.labels >= 0
    return NodeSplit(np.flatnonzero(known), np.arange(0), seed=0)
