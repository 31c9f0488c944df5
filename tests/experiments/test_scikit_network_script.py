"""lab/scripts/scikit_network.py: every way answers for all nodes, by the training side alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from xtcl.graph.datasets.synthetic import block_model
from xtcl.lab.experiments.records import RecordFile
from xtcl.lab.scripts import scikit_network
from xtcl.model_selection.evaluate import make_split
from xtcl.tasks.training_data import training_data

COMPARED = (Path(__file__).parents[2] / "docs" / "compare.md").read_text(encoding="utf-8")
KEPT = Path(__file__).parents[2] / "results" / "scikit-network" / "scikit-network.jsonl"


@pytest.mark.parametrize("name", scikit_network.WAYS)
def test_every_way_beats_chance(name: str) -> None:
    graph = block_model(150, num_classes=3, num_attributes=8, homophily=0.9, seed=0)
    split = make_split(graph, "nodes", 0, 0.5)
    told = scikit_network.WAYS[name](graph, training_data(graph, split), 0)
    assert told.shape == (150,)
    assert graph.labels is not None
    assert np.mean((told == graph.labels)[split.test]) > 0.4


def test_the_page_has_the_figures_that_were_measured() -> None:
    found = RecordFile(KEPT).read()["cora"]
    for figures in found["ways"].values():
        assert f"{figures['mean']:.2f} ± {figures['stderr']:.2f}" in COMPARED
