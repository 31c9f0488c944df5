"""A strategy of positives is the same after `save` and `load`, or a fit says that it is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone
from small_runs import small_graph, small_model, small_split

from xtcl.errors import UsageError
from xtcl.estimator import XTCL
from xtcl.runs.stored_strategy import MissingStrategy, read_strategy, strategy_json
from xtcl.sampling import (
    AllLabelPositives,
    LearnedPositives,
    MixedPositives,
    NaivePositives,
    PositiveSource,
    PositiveStrategy,
    PositiveTable,
    SameLabelPositives,
    UniformPositives,
)

GRAPH = small_graph(60)
assert GRAPH.labels is not None
STRATEGIES: dict[str, PositiveStrategy] = {
    "learned": LearnedPositives(min_probability=0.3, hops=1),
    "uniform": UniformPositives("all", hops=2),
    "same-label": SameLabelPositives(),
    "naive": NaivePositives(),
    "ceiling": AllLabelPositives(GRAPH.labels),
    "ceiling of a tensor": AllLabelPositives(torch.tensor(GRAPH.labels)),
    "mixture": MixedPositives([LearnedPositives(hops=2), "uniform"]),
    "mixture with shares": MixedPositives(["learned", UniformPositives()], [np.float64(0.7), 0.3]),
}


class NextNode(PositiveStrategy):
    """The node that follows in number: of the user's own."""

    name = "next-node"

    def __init__(self, step: int = 1) -> None:
        self.step = step

    def table(self, source: PositiveSource, number: int) -> PositiveTable:
        nodes = (np.arange(source.num_nodes) + self.step) % source.num_nodes
        return PositiveTable(np.repeat(nodes[:, None], number, axis=1))


def saved_and_loaded(positives: Any, folder: Path) -> tuple[XTCL, XTCL]:
    model = small_model(epochs=1, positives=positives).fit(GRAPH, small_split(GRAPH, "nodes"))
    model.save(folder)
    return model, XTCL.load(folder)


@pytest.mark.parametrize("case", STRATEGIES)
def test_a_clone_of_a_loaded_model_has_the_same_positives(case: str, tmp_path: Path) -> None:
    model, loaded = saved_and_loaded(STRATEGIES[case], tmp_path / "run")
    assert isinstance(loaded.positives, PositiveStrategy)
    assert strategy_json(loaded.positives) == strategy_json(STRATEGIES[case])
    again = clone(loaded).fit(GRAPH, loaded.split_)
    np.testing.assert_array_equal(again.positives_, model.positives_)
    np.testing.assert_array_equal(again.embedding_, model.embedding_)


def test_the_parameters_of_the_issue_stay(tmp_path: Path) -> None:
    _, loaded = saved_and_loaded(STRATEGIES["mixture"], tmp_path / "run")
    mixture = loaded.positives
    assert isinstance(mixture, MixedPositives)
    near, uniform = mixture.parts
    assert isinstance(near, LearnedPositives)
    assert (near.hops, uniform, mixture.shares) == (2, "uniform", None)


@pytest.mark.parametrize("case", [NextNode(2), MixedPositives([NextNode(2), "uniform"])])
def test_a_strategy_of_the_users_own_predicts_and_refuses_a_fit(case: Any, tmp_path: Path) -> None:
    model, loaded = saved_and_loaded(case, tmp_path / "run")
    np.testing.assert_array_equal(loaded.predict_proba(), model.predict_proba())
    np.testing.assert_array_equal(loaded.positives_, model.positives_)
    told = r"'next-node' .* \(NextNode\), .* set_params\(positives=NextNode\(\.\.\.\)\)"
    with pytest.raises(UsageError, match=told):
        clone(loaded).fit(GRAPH, loaded.split_)
    loaded.save(tmp_path / "again")
    with pytest.raises(UsageError, match=told):
        XTCL.load(tmp_path / "again").resolved_recipe()
    again = clone(loaded).set_params(positives=case).fit(GRAPH, loaded.split_)
    np.testing.assert_array_equal(again.embedding_, model.embedding_)


def test_a_class_of_the_users_own_with_a_known_name_is_not_taken_for_it() -> None:
    named = type("LearnedPositives", (LearnedPositives,), {})
    read = read_strategy(strategy_json(named()))
    assert isinstance(read, MissingStrategy)


@pytest.mark.parametrize("stored", [None, 20, "uniform", "0.7*learned+0.3*uniform"])
def test_numbers_and_names_are_stored_as_they_are(stored: object, tmp_path: Path) -> None:
    _, loaded = saved_and_loaded(stored, tmp_path / "run")
    assert loaded.positives == stored


def test_a_run_that_has_the_name_alone(tmp_path: Path) -> None:
    read = read_strategy("next-node")
    assert isinstance(read, MissingStrategy)
    assert read.name == "next-node"
    source: Any = None
    with pytest.raises(UsageError, match="no strategy 'next-node' of positives in xtcl"):
        read.table(source, 3)
