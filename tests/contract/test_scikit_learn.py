"""What scikit-learn expects of an estimator: its common checks, tags, honest methods, its errors.

The common checks that fit anything cannot apply: they fit random tables, in which a row is a sample
that knows nothing of other rows. Here a sample is a node of a graph that was given before. So what
they check of a fit is checked below with node numbers. NOT_APPLICABLE has the reasons.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn.exceptions
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.utils import estimator_checks, get_tags
from small_runs import python, small_graph, small_model, small_split

from xtcl.errors import NotAvailableError, NotFittedError, UsageError, XTCLError
from xtcl.estimator import XTCL
from xtcl.integrations import NodeEmbedder
from xtcl.sampling.xgsampler import XGSampler
from xtcl.tasks.custom import CustomTask

GRAPH = small_graph()
NO_HEAD = CustomTask(lambda u, v: u[:, None] % 2 == v % 2, np.arange(40))
NODES = np.arange(GRAPH.num_nodes)[:, None]
assert GRAPH.labels is not None
LABELS = np.array(["cat", "dog", "owl"])[GRAPH.labels]

ESTIMATORS: tuple[BaseEstimator, ...] = (
    small_model(epochs=1),
    small_model("links", epochs=1),
    NodeEmbedder(GRAPH, small_model(epochs=1)),
    NodeEmbedder(GRAPH, small_model("links", epochs=1)),
)

CHECKS: tuple[str, ...] = (
    "check_do_not_raise_errors_in_init_or_set_params",
    "check_estimator_cloneable",
    "check_estimator_repr",
    "check_estimator_tags_renamed",
    "check_estimators_partial_fit_n_features",
    "check_estimators_unfitted",
    "check_get_params_invariance",
    "check_mixin_order",
    "check_no_attributes_set_in_init",
    "check_non_transformer_estimators_n_iter",
    "check_parameters_default_constructible",
    "check_set_params",
    "check_transformer_n_iter",
    "check_transformers_unfitted",
    "check_valid_tag_types",
)
"""Run for every estimator, as scikit-learn has them."""

FITTED = {
    "check_dict_unchanged": "test_answers_change_nothing_of_an_embedder",
    "check_dont_overwrite_parameters": "test_fit_adds_only_names_that_end_in_an_underscore",
    "check_dataframe_column_names_consistency": "test_frames_keep_their_index_and_column_names",
    "check_estimators_fit_returns_self": "test_fit_adds_only_names_that_end_in_an_underscore",
    "check_estimators_overwrite_params": "test_fit_adds_only_names_that_end_in_an_underscore",
    "check_estimators_pickle": "tests/contract/test_pickle_and_clone.py",
    "check_fit_check_is_fitted": "test_fit_adds_only_names_that_end_in_an_underscore",
    "check_fit_idempotent": "test_a_second_fit_gives_the_same",
    "check_get_feature_names_out_error": "test_not_fitted_is_an_error_of_both_libraries",
    "check_methods_sample_order_invariance": "test_rows_depend_on_nothing_but_their_node",
    "check_methods_subset_invariance": "test_rows_depend_on_nothing_but_their_node",
    "check_n_features_in": "test_fit_adds_only_names_that_end_in_an_underscore",
    "check_n_features_in_after_fitting": "test_a_matrix_of_features_is_sent_to_the_embedder",
    "check_pipeline_consistency": "tests/contract/test_pickle_and_clone.py",
    "check_requires_y_none": "test_an_embedder_for_nodes_needs_labels",
    "check_set_output_transform_pandas": "test_frames_keep_their_index_and_column_names",
    "check_transformer_get_feature_names_out": "test_frames_keep_their_index_and_column_names",
}
"""Checks that fit random tables, and the tests that check the same of nodes."""

NOT_APPLICABLE = {
    "X is a table of features; here it is a graph, or node numbers": (
        "check_array_api",
        "check_complex_data",
        "check_dtype_object",
        "check_estimator_sparse",
        "check_estimators_data_not_an_array",
        "check_estimators_dtypes",
        "check_estimators_empty_data_messages",
        "check_estimators_nan_inf",
        "check_f_contiguous_array_estimator",
        "check_fit1d",
        "check_fit2d",
        "check_inplace_ensure_writeable",
        "check_nonsquare_error",
        "check_positive_only_tag_during_fit",
        "check_readonly_memmap_input",
        "check_transformer_data_not_an_array",
        "check_transformer_general",
        "check_transformer_preserve_dtypes",
    ),
    "fit(graph, split) of XTCL has no y": ("check_fit_score_takes_y", "check_supervised_y"),
    "there are no sample weights, and no class weights": (
        "check_all_zero_sample_weights_error",
        "check_class_weight",
        "check_sample_weight",
    ),
    "XTCL classifies the nodes of a graph, not rows of a table": (
        "check_classifier",
        "check_decision_proba_consistency",
    ),
    "the estimator is of another kind": (
        "check_cluster",
        "check_outlier",
        "check_regressor",
        "check_sparsify_coefficients",
        "check_transformers_unfitted_stateless",
        "check_fit_non_negative",
    ),
    "parameters are checked by xtcl itself, with sentences of its own": ("check_param_validation",),
    "the same as the check of pandas, for polars or for all transformers at once": (
        "check_set_output_transform",
        "check_set_output_transform_polars",
        "check_global",
        "check_transformer_get_feature_names_out_pandas",
    ),
}
"""Checks that cannot apply, by the start of their names, and why."""


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("estimator", [*ESTIMATORS, XGSampler()], ids=repr)
def test_the_common_check(estimator: BaseEstimator, check: str) -> None:
    run: Callable[[str, Any], None] = getattr(estimator_checks, check)
    run(type(estimator).__name__, estimator)


def test_every_common_check_is_accounted_for() -> None:
    checks = {
        name
        for name, found in inspect.getmembers(estimator_checks, inspect.isfunction)
        if name.startswith("check_") and found.__module__ == estimator_checks.__name__
    } - {"check_estimator"}
    left_out = tuple(start for starts in NOT_APPLICABLE.values() for start in starts)
    assert set(CHECKS) <= checks
    unknown = {name for name in checks - set(CHECKS) - set(FITTED) if not name.startswith(left_out)}
    assert not unknown
    assert all(here in globals() for here in FITTED.values() if here.startswith("test_"))


def fitted_embedder(nodes: np.ndarray = NODES[:40]) -> NodeEmbedder:
    return NodeEmbedder(GRAPH, small_model(epochs=1)).fit(nodes, LABELS[nodes.ravel()])


def test_fit_adds_only_names_that_end_in_an_underscore() -> None:
    split = small_split(GRAPH, "nodes")
    for estimator, given in (
        (small_model(epochs=1), (GRAPH, split)),
        (NodeEmbedder(GRAPH, small_model(epochs=1)), (NODES[:40], LABELS[:40])),
    ):
        before = estimator.get_params(deep=False)
        assert estimator.fit(*given) is estimator
        added = set(vars(estimator)) - set(before)
        assert added
        assert all(name.endswith("_") and not name.startswith("_") for name in added)
        assert all(getattr(estimator, name) is value for name, value in before.items())
    assert estimator.n_features_in_ == 1


def test_a_second_fit_gives_the_same() -> None:
    step = fitted_embedder()
    first = step.transform(NODES)
    np.testing.assert_array_equal(step.fit(NODES[:40], LABELS[:40]).transform(NODES), first)
    np.testing.assert_array_equal(clone(step).fit(NODES[:40], LABELS[:40]).transform(NODES), first)


def test_rows_depend_on_nothing_but_their_node() -> None:
    step = fitted_embedder()
    whole = step.transform(NODES)
    order = np.random.default_rng(0).permutation(80)
    np.testing.assert_array_equal(step.transform(NODES[order]), whole[order])
    np.testing.assert_array_equal(np.concatenate([step.transform(n[None]) for n in NODES]), whole)
    np.testing.assert_array_equal(step.transform(order.astype(np.int32)), whole[order])


def test_answers_change_nothing_of_an_embedder() -> None:
    step = fitted_embedder()
    before = dict(vars(step))
    step.transform(NODES)
    step.get_feature_names_out()
    assert vars(step) == before


def test_frames_keep_their_index_and_column_names() -> None:
    frame = pd.DataFrame({"node": np.arange(40)}, index=[f"row {i}" for i in range(40)])
    step = NodeEmbedder(GRAPH, small_model(epochs=1)).set_output(transform="pandas")
    out = step.fit_transform(frame, LABELS[:40])
    assert list(out.index) == list(frame.index)
    assert list(out.columns) == list(step.get_feature_names_out())
    assert list(out.columns[:2]) == ["z000", "z001"]
    np.testing.assert_array_equal(out.to_numpy(), step.model_.compact_embedding_[:40])
    assert list(step.feature_names_in_) == ["node"]
    with pytest.raises(ValueError, match="feature names should match"):
        step.transform(frame.rename(columns={"node": "other"}))


def test_an_embedder_gives_the_full_embedding_where_it_is_asked_to() -> None:
    step = fitted_embedder().set_params(full=True)
    np.testing.assert_array_equal(step.transform(NODES), step.model_.embedding_)
    names = step.get_feature_names_out()
    assert names.tolist() == [f"z{at}" for at in range(step.model_.embedding_.shape[1])]
    assert clone(step).full


def test_an_embedder_for_nodes_needs_labels() -> None:
    assert [get_tags(each).target_tags.required for each in ESTIMATORS[2:]] == [True, False]
    with pytest.raises(ValueError, match="has no labels"):
        NodeEmbedder(GRAPH, small_model()).fit(NODES)
    with pytest.raises(ValueError, match=r"y has the shape \[3\], for 40 nodes in X"):
        NodeEmbedder(GRAPH, small_model()).fit(NODES[:40], LABELS[:3])


def test_a_matrix_of_features_is_sent_to_the_embedder() -> None:
    features, y = np.random.default_rng(0).normal(size=(20, 3)), np.arange(20) % 2
    with pytest.raises(UsageError, match=r"ndarray of \[20, 3\] is no graph.*NodeEmbedder"):
        XTCL().fit(features, y)
    with pytest.raises(UsageError, match=r"cross_val_score, .* use NodeEmbedder\(graph\)"):
        cross_val_score(XTCL(), features, y, error_score="raise")
    with pytest.raises(ValueError, match=r"NodeEmbedder\(graph\)"):
        GridSearchCV(XTCL(), {"width": [4]}).fit(features, y)
    with pytest.raises(UsageError, match="X must be node numbers from 0 to 79"):
        NodeEmbedder(GRAPH).fit(features, y)
    with pytest.raises(UsageError, match="X must be node numbers from 0 to 79"):
        fitted_embedder().transform(features)


def test_labels_in_the_place_of_a_split_are_refused() -> None:
    with pytest.raises(ValueError, match=r"train_mask lists nodes twice.* labels belong to"):
        XTCL().fit(GRAPH, GRAPH.labels)


def test_not_fitted_is_an_error_of_both_libraries() -> None:
    assert issubclass(NotFittedError, XTCLError)
    assert issubclass(NotFittedError, sklearn.exceptions.NotFittedError)
    with pytest.raises(sklearn.exceptions.NotFittedError, match="XTCL is not fitted yet; call fit"):
        XTCL().predict()
    with pytest.raises(sklearn.exceptions.NotFittedError, match="NodeEmbedder is not fitted yet"):
        NodeEmbedder(GRAPH).transform([0])
    with pytest.raises(sklearn.exceptions.NotFittedError, match="NodeEmbedder is not fitted yet"):
        NodeEmbedder(GRAPH).get_feature_names_out()


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
