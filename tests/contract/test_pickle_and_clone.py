"""Copies of fitted models and pipelines answer as the original does, and share the graph."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import joblib  # type: ignore[import-untyped]
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from small_runs import small_graph, small_model, small_split

from xtcl.estimator import XTCL
from xtcl.integrations import NodeEmbedder
from xtcl.sampling import LearnedPositives

GRAPH = small_graph()
NODES = np.arange(GRAPH.num_nodes)
PAIRS = [[0, 1, 2, 3], [40, 41, 42, 43]]


def joblib_copy(model: Any) -> Any:
    written = io.BytesIO()
    joblib.dump(model, written)
    written.seek(0)
    return joblib.load(written)


COPIES: dict[str, Callable[[Any], Any]] = {
    "pickle": lambda model: pickle.loads(pickle.dumps(model)),  # noqa: S301
    "joblib": joblib_copy,
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
}
copied = pytest.mark.parametrize("way", COPIES)


@cache
def fitted(task: str, cap: int | None = None, positives: Any = None) -> XTCL:
    model = small_model(task, epochs=1, cap=cap, positives=positives)
    return model.fit(GRAPH, small_split(GRAPH, task))


@copied
@pytest.mark.parametrize("cap", [None, 4])
@pytest.mark.parametrize("task", ["nodes", "links"])
def test_a_fitted_model(task: str, cap: int | None, way: str) -> None:
    model, asked = fitted(task, cap), None if task == "nodes" else PAIRS
    explanation = model.explain(0, 40)
    again = COPIES[way](model)
    assert type(again) is XTCL
    assert again.get_params().keys() == model.get_params().keys()
    np.testing.assert_array_equal(again.embedding_, model.embedding_)
    np.testing.assert_array_equal(again.positives_, model.positives_)
    np.testing.assert_array_equal(again.predict(asked), model.predict(asked))
    np.testing.assert_array_equal(again.predict_proba(asked), model.predict_proba(asked))
    assert again.relation_weights_ == model.relation_weights_
    assert again.explain(0, 40) == explanation == model.explain(0, 40)
    assert again.score(model.split_) == model.score(model.split_)


NEAR = LearnedPositives(hops=1, min_probability=0.3)


@copied
@pytest.mark.parametrize("positives", [None, NEAR], ids=["recipe", "hops"])
@pytest.mark.parametrize("task", ["nodes", "links"])
def test_a_model_that_was_loaded_from_a_run(
    task: str, positives: Any, way: str, tmp_path: Path
) -> None:
    model = fitted(task, positives=positives)
    model.save(tmp_path / "run")
    loaded = XTCL.load(tmp_path / "run")
    assert repr(loaded.positives) == repr(positives)
    asked = None if task == "nodes" else PAIRS
    again = COPIES[way](loaded)
    np.testing.assert_array_equal(again.predict_proba(asked), loaded.predict_proba(asked))
    assert again.score(again.split_, GRAPH) == loaded.score(loaded.split_, GRAPH)
    assert again.explain(0, 40) == loaded.explain(0, 40)
    assert again.random_state_ == loaded.random_state_ == 0
    anew = clone(loaded).fit(GRAPH, loaded.split_)
    np.testing.assert_array_equal(anew.positives_, model.positives_)
    np.testing.assert_array_equal(anew.embedding_, model.embedding_)


@cache
def search_of(task: str) -> GridSearchCV:
    pipeline = make_pipeline(NodeEmbedder(GRAPH, small_model(task, epochs=1)), LogisticRegression())
    return GridSearchCV(pipeline, {"nodeembedder__model__width": [4, 8]}, cv=2).fit(
        NODES, GRAPH.labels
    )


@copied
@pytest.mark.parametrize("task", ["nodes", "links"])
def test_a_fitted_search_over_a_pipeline(task: str, way: str) -> None:
    search = search_of(task)
    again = COPIES[way](search)
    np.testing.assert_array_equal(again.predict(NODES), search.predict(NODES))
    assert again.best_params_ == search.best_params_
    step, before = (each.best_estimator_[0] for each in (again, search))
    assert type(step) is NodeEmbedder
    np.testing.assert_array_equal(step.transform(NODES), before.transform(NODES))
    assert list(step.get_feature_names_out()) == list(before.get_feature_names_out())


def test_folds_share_the_graph() -> None:
    for search in map(search_of, ("nodes", "links")):
        assert search.best_estimator_[0].graph is GRAPH
        assert clone(search).estimator[0].graph is GRAPH
    model = fitted("nodes")
    assert copy.deepcopy(model).graph_ is model.graph_
    assert copy.deepcopy(model).training_data_.graph is model.training_data_.graph


def test_a_clone_is_not_fitted_and_has_the_parameters() -> None:
    model = fitted("links", 4)
    again = clone(model)
    assert not hasattr(again, "embedding_")
    assert repr(again) == repr(model)
    again.set_params(cap=None, width=5)
    assert (model.cap, model.width) == (4, 8)
