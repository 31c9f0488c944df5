from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch

from xtcl.baselines import METHODS, make_method
from xtcl.baselines.method import XTCLMethod
from xtcl.errors import UsageError
from xtcl.graph.datasets.synthetic import block_model
from xtcl.graph.splits import node_split
from xtcl.lab.methods.naive_xgboost import NaiveXGBoost
from xtcl.progress import Progress
from xtcl.tasks import TASKS, make_task
from xtcl.tasks.fit import FitOptions, fit_task
from xtcl.tasks.results import NodePredictions
from xtcl.tasks.training_data import training_data

NAMES = (
    "xtcl-gcn xtcl-gat sscl scl ceiling-scl naive-tcl dgi sugrl asp polygcl gcn gat dgcn "
    "meta-pn cocos subgraph logistic propagation"
)


def test_every_method_goes_by_its_own_name() -> None:
    assert list(METHODS) == NAMES.split()
    assert len({kind.title for kind in METHODS.values()}) == len(METHODS)
    for name in METHODS:
        method = make_method(name.upper())
        assert method.name == name
        assert method.tasks <= set(TASKS)


def test_an_unknown_method_meets_the_closest() -> None:
    with pytest.raises(UsageError, match=r"no method 'propagate'\. Did you mean 'propagation'"):
        make_method("propagate")
    with pytest.raises(UsageError, match=r"no method 'zzz'\. Known: xtcl-gcn"):
        make_method("zzz")


def test_what_is_only_timed_says_so() -> None:
    with pytest.raises(UsageError, match=r"^Naive XGBoost has no task .* `xtcl reproduce time`"):
        make_method("Naive-XGBoost")


COMPARED = [kind for kind in METHODS.values() if not issubclass(kind, XTCLMethod)]


@pytest.mark.parametrize("kind", [*COMPARED, NaiveXGBoost])
def test_every_system_has_its_formula_citation_and_cost_on_its_page(kind: type) -> None:
    text = kind.__doc__ or ""
    assert "math:" in text
    assert re.search(r"\b(19|20)\d\d\b", text)
    assert "Cost" in text
    page = (Path(__file__).parents[2] / "docs" / "systems.md").read_text(encoding="utf-8")
    assert f"::: {kind.__module__}.{kind.__name__}\n" in page


@pytest.mark.parametrize("encoder", ["gcn", "gat"])
def test_xtcl_is_the_pipeline_of_the_package(encoder: str) -> None:
    graph = block_model(40, num_classes=2, num_attributes=10, mean_degree=6)
    side = training_data(graph, node_split(graph, 0.3))
    device = torch.device("cpu")
    answer = make_method(f"xtcl-{encoder}").fit(
        side, "nodes", seed=7, device=device, progress=Progress()
    )
    options = FitOptions(encoder=encoder, seed=7)
    expected = fit_task(side, make_task("nodes"), options=options).answer
    assert isinstance(answer, NodePredictions)
    assert isinstance(expected, NodePredictions)
    np.testing.assert_array_equal(answer.probabilities, expected.probabilities)
