"""What scikit-learn expects of an estimator: pickling, tags, honest methods, its own errors."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import sklearn.exceptions
from sklearn.base import is_classifier
from sklearn.utils import get_tags
from small_runs import python, small_graph, small_model, small_split

from xtcl.errors import NotAvailableError, NotFittedError, UsageError, XTCLError
from xtcl.estimator import XTCL
from xtcl.integrations import NodeEmbedder
from xtcl.tasks.custom import CustomTask

GRAPH = small_graph()
PAIRS = [[0, 1, 2, 3], [40, 41, 42, 43]]
NO_HEAD = CustomTask(lambda u, v: u[:, None] % 2 == v % 2, np.arange(40))


@pytest.mark.parametrize("cap", [None, 4])
@pytest.mark.parametrize("task", ["nodes", "links"])
def test_a_fitted_model_can_be_pickled(task: str, cap: int | None) -> None:
    split = small_split(GRAPH, task)
    model = small_model(task, epochs=2, cap=cap).fit(GRAPH, split)
    told = [model.predict_proba(None if task == "nodes" else PAIRS), model.explain(0, 40)]
    again = pickle.loads(pickle.dumps(model))  # noqa: S301
    assert again.get_params().keys() == model.get_params().keys()
    np.testing.assert_array_equal(again.embedding_, model.embedding_)
    np.testing.assert_array_equal(again.predict_proba(None if task == "nodes" else PAIRS), told[0])
    assert again.explain(0, 40) == told[1] == model.explain(0, 40)
    assert again.score(split) == model.score(split)


def test_not_fitted_is_an_error_of_both_libraries() -> None:
    assert issubclass(NotFittedError, XTCLError)
    assert issubclass(NotFittedError, sklearn.exceptions.NotFittedError)
    with pytest.raises(sklearn.exceptions.NotFittedError, match="XTCL is not fitted yet; call fit"):
        XTCL().predict()
    with pytest.raises(sklearn.exceptions.NotFittedError, match="NodeEmbedder is not fitted yet"):
        NodeEmbedder(GRAPH).transform([0])


def test_the_errors_alone_import_no_heavy_package() -> None:
    heavy = "{'numpy', 'scipy', 'sklearn', 'torch'}"
    program = f"import sys, xtcl, xtcl.errors; assert not {heavy} & set(sys.modules)"
    done = python("-c", program)
    assert done.returncode == 0, done.stderr


def test_a_model_has_the_methods_that_its_task_has() -> None:
    methods = ("predict_proba", "decision_function")
    found = {
        name: tuple(hasattr(model, method) for method in methods)
        for name, model in (
            ("nodes", XTCL("nodes")),
            ("links", XTCL("links")),
            ("custom", XTCL(NO_HEAD)),
            ("fitted nodes", small_model(epochs=1).fit(GRAPH)),
            ("fitted custom", small_model(NO_HEAD, epochs=1).fit(GRAPH)),
        )
    }
    assert found == {
        "nodes": (True, False),
        "links": (True, True),
        "custom": (False, False),
        "fitted nodes": (True, False),
        "fitted custom": (False, False),
    }


def test_a_method_that_is_absent_says_why() -> None:
    model = small_model(epochs=1).fit(GRAPH)
    with pytest.raises(NotAvailableError, match="decision_function is for task='links'") as refused:
        _ = model.decision_function
    assert isinstance(refused.value, UsageError)
    assert isinstance(refused.value, AttributeError)
    with pytest.raises(NotFittedError, match="not fitted yet"):
        _ = XTCL(NO_HEAD).predict_proba
    assert "Score of each pair" in (XTCL.decision_function.__doc__ or "")


def test_tags_say_that_nodes_are_classified() -> None:
    assert is_classifier(XTCL("nodes"))
    assert not is_classifier(XTCL("links"))
    assert not is_classifier(XTCL(NO_HEAD))
    assert not get_tags(XTCL()).target_tags.required


def test_the_old_name_of_the_training_data_warns() -> None:
    model = small_model(epochs=1).fit(GRAPH, small_split(GRAPH, "nodes"))
    with pytest.warns(DeprecationWarning, match="training_side_ is called training_data_ now"):
        assert model.training_side_ is model.training_data_
