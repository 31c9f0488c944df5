"""On a planted graph whose links say more than its attributes, those that read links show it."""

from __future__ import annotations

import functools

import pytest
import torch

from xtcl.baselines import make_method
from xtcl.graph.datasets.synthetic import block_model
from xtcl.graph.splits import LinkSplit, NodeSplit, link_split, node_split
from xtcl.lab.experiments.comparison import LinkTable, NodeTable
from xtcl.model_selection.evaluate import score_method
from xtcl.progress import Progress

CONTROL = "logistic"
GRAPH = block_model(
    200, num_classes=3, num_attributes=20, mean_degree=12, homophily=0.95, attribute_signal=0.6
)
SPLITS: dict[str, NodeSplit | LinkSplit] = {
    "nodes": node_split(GRAPH, 0.15, seed=1),
    "links": link_split(GRAPH, 0.8, seed=1),
}
MARGINS = {"nodes": 0.1, "links": 0.05}


@functools.cache
def figure(task: str, method: str) -> float:
    found, _ = score_method(
        GRAPH,
        SPLITS[task],
        make_method(method),
        seed=0,
        device=torch.device("cpu"),
        progress=Progress(),
    )
    return found


@pytest.mark.parametrize(
    ("task", "method"),
    [
        (table.task, method)
        for table in (NodeTable(), LinkTable())
        for method in table.systems()
        if method != CONTROL
    ],
)
def test_beats_attributes_alone(task: str, method: str) -> None:
    assert figure(task, method) > figure(task, CONTROL) + MARGINS[task]
