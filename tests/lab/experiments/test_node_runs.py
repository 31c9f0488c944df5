"""What a run for nodes keeps."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
import torch
from small_runs import shrink_recipes, small_graph

from xtcl.baselines import make_method
from xtcl.baselines.method import Method
from xtcl.config import FIXED_RULES
from xtcl.graph.splits import node_split
from xtcl.lab.experiments.experiment import Context
from xtcl.lab.experiments.node_runs import measure_nodes
from xtcl.model_selection.evaluation import compare
from xtcl.tasks import make_task
from xtcl.tasks.blend import Blend, BlendMember
from xtcl.tasks.results import NodePredictions
from xtcl.tasks.training_data import TrainingData

CONTEXT = Context(torch.device("cpu"))


class Chosen(Method):
    """Answers with a choice beside its predictions."""

    name: ClassVar[str] = "chosen"
    title: ClassVar[str] = "Chosen"
    tasks: ClassVar[frozenset[str]] = frozenset({"nodes"})

    def fit(self, side: TrainingData, task: str, **given: Any) -> NodePredictions:
        inner = make_method("logistic").fit(side, task, **given)
        assert isinstance(inner, NodePredictions)
        members = (
            BlendMember("uniform", "logistic", ("uniform",), 0.75, 1.0, 1.0, 0.61239, 0.671),
            BlendMember("trees", "trees", (), 0.25, 1.0, 1.0, 0.7, 0.65),
        )
        inner.choice = Blend(members, 94, 0.6, 0.68)
        return inner


def test_all_metrics_are_those_of_evaluate() -> None:
    graph = small_graph()
    split = node_split(graph, seed=3)
    found = measure_nodes(make_method("logistic"), graph, split, 3, CONTEXT)
    (expected,) = compare(["logistic"], graph, splits=1, seed=3).methods
    assert found["metrics"] == {name: each.runs[0] for name, each in expected.metrics.items()}
    assert set(found["metrics"]) == {"accuracy", "balanced_accuracy", "macro_f1", "log_loss"}
    assert found["figure"] == found["metrics"]["accuracy"] == expected.runs[0]
    assert found["train_labels"] == len(split.train) == 8
    assert found["seconds"] >= 0
    assert not found.keys() & {"recipe", "choice"}


def test_what_hidden_labels_chose_is_kept() -> None:
    graph = small_graph()
    found = measure_nodes(Chosen(), graph, node_split(graph, seed=0), 0, CONTEXT)
    assert found["choice"] == {
        "hidden_labels": 94,
        "candidates": [
            {"name": "uniform", "weight": 0.75, "log_loss": 0.6124, "accuracy": 67.1},
            {"name": "trees", "weight": 0.25, "log_loss": 0.7, "accuracy": 65.0},
        ],
    }


@pytest.mark.slow
def test_ours_have_their_recipe(monkeypatch: pytest.MonkeyPatch) -> None:
    shrink_recipes(monkeypatch, epochs=3)
    graph = small_graph()
    for name, known in (
        ("xtcl-gcn", make_task("nodes").recipe("gcn")),
        ("sscl", make_task("nodes").named_recipe(FIXED_RULES, "gcn")),
    ):
        found = measure_nodes(make_method(name), graph, node_split(graph, 0.3), 0, CONTEXT)
        recipe = found["recipe"]
        assert recipe["strategy"] == ("uniform" if name == "sscl" else known.strategy)
        assert recipe["hidden_parts"] == known.hidden_parts
        assert [each["training"]["epochs"] for each in recipe["ensembles"][0]["encoders"]] == [
            3 for _ in known.ensembles[0].encoders
        ]
        # What hidden labels chose is kept beside it; fixed rules choose nothing.
        assert ("choice" in found) is (name == "xtcl-gcn")
