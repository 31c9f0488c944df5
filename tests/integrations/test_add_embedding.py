"""AddXTCLEmbedding in PyG."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from small_runs import small_graph, small_model, small_split
from torch_geometric.data import Data
from torch_geometric.transforms import Compose, NormalizeFeatures

from xtcl import AddXTCLEmbedding
from xtcl.errors import DataError
from xtcl.graph.splits import NodeSplit

SMALL: dict[str, Any] = {"width": 8, "epochs": 3, "device": "cpu"}


def data_of(train: NodeSplit) -> Data:
    data = small_graph().to_pyg()
    data.train_mask = torch.zeros(data.num_nodes, dtype=torch.bool)
    data.train_mask[torch.from_numpy(train.train.copy())] = True
    return data


def test_it_is_the_embedding_of_the_training_labels_and_no_others() -> None:
    graph = small_graph()
    split = small_split(graph, "nodes")
    assert isinstance(split, NodeSplit)
    data = data_of(split)
    found = AddXTCLEmbedding(**SMALL)(data)
    expected = small_model(**SMALL).fit(graph, split).embedding_
    assert torch.equal(found.xtcl_embedding, torch.from_numpy(expected))
    assert "xtcl_embedding" not in data  # PyG's transforms work on a copy
    data.y[~data.train_mask] = 0
    again = AddXTCLEmbedding(**SMALL)(data)
    assert torch.equal(again.xtcl_embedding, found.xtcl_embedding)


def test_it_goes_with_other_transforms_and_appends_to_x() -> None:
    data = small_graph().to_pyg()
    width = data.x.shape[1]
    found = Compose([NormalizeFeatures(), AddXTCLEmbedding(None, task="links", **SMALL)])(data)
    assert found.x.shape[0] == data.num_nodes
    assert found.x.shape[1] > width
    assert data.x.shape[1] == width


def test_several_splits_are_refused() -> None:
    data = small_graph().to_pyg()
    data.train_mask = torch.ones(data.num_nodes, 10, dtype=torch.bool)
    with pytest.raises(DataError, match=r"such as train_mask\[:, 0\]"):
        AddXTCLEmbedding(**SMALL)(data)
