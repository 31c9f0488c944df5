"""Boosted trees against plain walks, LightGBM itself and the derivatives of the log-loss."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from typing import Any

import lightgbm
import numpy as np
import pytest
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from safetensors.numpy import load, save
from scipy.special import log_softmax, softmax

from xtcl.errors import DataError, UsageError
from xtcl.tasks import trees as module
from xtcl.tasks.logistic import INVERSE_TEMPERATURES, inverse_temperature, stratified_folds
from xtcl.tasks.trees import LIGHTGBM_SETTINGS, BoostedTrees, fit_trees

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]

ROUNDS = 12


def clusters(n: int, classes: int, seed: int = 0, d: int = 8) -> tuple[NDArray[np.float32], Codes]:
    """Overlapping classes of unequal size; half of the entries are 0, as of words."""
    rng = np.random.default_rng(seed)
    labels = np.concatenate([np.arange(classes), rng.integers(0, classes, n - classes) ** 2])
    labels = np.minimum(labels, classes - 1)
    rows = rng.normal(size=(classes, d))[labels] + rng.normal(size=(n, d))
    return (rows * rng.integers(0, 2, (n, d))).astype(np.float32), labels.astype(np.int64)


each_count = pytest.mark.parametrize("classes", [2, 4])


# Walks down the trees.


def leaf_of(trees: BoostedTrees, root: int, row: NDArray[Any]) -> int:
    """The leaf that a row ends in, step by step."""
    node = root
    while trees.left_[node] >= 0:
        left = float(row[trees.feature_[node]]) <= trees.threshold_[node]
        node = int(trees.left_[node] if left else trees.right_[node])
    return node


def walked(trees: BoostedTrees, rows: NDArray[Any]) -> Floats:
    """The scores, tree by tree and row by row."""
    scores = np.zeros((len(rows), len(trees.classes_)))
    for place, row in enumerate(rows):
        for score in range(len(trees.classes_)):
            scores[place, score] = trees.base_[score]
        for root, score in zip(trees.starts_, trees.tree_class_, strict=True):
            scores[place, score] += trees.value_[leaf_of(trees, int(root), row)]
    return scores


@each_count
@pytest.mark.parametrize("places", [2**20, 1])
def test_scores_are_those_of_a_plain_walk(
    classes: int, places: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, labels = clusters(120, classes)
    others, _ = clusters(50, classes, seed=1)
    trees = fit_trees(rows, labels, seed=0, rounds=ROUNDS)
    expected = walked(trees, others)
    assert np.ptp(expected, axis=0).max() > 0.1
    monkeypatch.setattr(module, "_PLACES_PER_BLOCK", places)
    np.testing.assert_allclose(trees.decision_function(others), expected, rtol=1e-12, atol=1e-12)
    sparse = trees.decision_function(sp.csr_array(others))
    np.testing.assert_array_equal(sparse, trees.decision_function(others))


def made_by_hand() -> BoostedTrees:
    """Two trees: one that splits column 2 at 0.5 and column 0 at -1, and one that is a leaf."""
    return BoostedTrees(
        feature_=np.array([2, 0, 0, 0, 0, 0], dtype=np.int32),
        threshold_=np.array([0.5, 0.0, -1.0, 0.0, 0.0, 0.0]),
        left_=np.array([1, -1, 3, -1, -1, -1], dtype=np.int32),
        right_=np.array([2, -1, 4, -1, -1, -1], dtype=np.int32),
        value_=np.array([9.0, 1.0, 9.0, 2.0, 3.0, 0.25]),
        starts_=np.array([0, 5], dtype=np.int32),
        tree_class_=np.array([1, 0], dtype=np.int32),
        base_=np.array([0.25, 0.5]),
        classes_=np.array([1, 3]),
        num_columns_=3,
        inverse_temperature_=2.0,
    )


def test_a_value_at_the_threshold_goes_left() -> None:
    rows = np.array([[0.0, 7, 0.5], [-1, 7, 0.75], [-0.5, 7, 0.75], [0, 0, 0]], dtype=np.float32)
    expected = [[0.5, 1.5], [0.5, 2.5], [0.5, 3.5], [0.5, 1.5]]
    np.testing.assert_array_equal(made_by_hand().decision_function(rows), expected)


def test_probabilities_are_a_softmax_in_the_columns_of_their_codes() -> None:
    rows = np.zeros((1, 3))
    found = made_by_hand().predict_proba(rows, 5)
    share = 1 / (1 + math.exp(1.5 - 0.5))
    np.testing.assert_allclose(found, [[0, share, 0, 1 - share, 0]], rtol=1e-9, atol=1e-15)
    found = made_by_hand().calibrated().predict_proba(rows, 5)
    share = 1 / (1 + math.exp(2 * (1.5 - 0.5)))
    np.testing.assert_allclose(found, [[0, share, 0, 1 - share, 0]], rtol=1e-9, atol=1e-15)


# What LightGBM grows.


@each_count
def test_scores_are_those_of_lightgbm(classes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    boosters: list[Any] = []
    train = lightgbm.train

    def kept(*arguments: Any, **options: Any) -> Any:
        boosters.append(train(*arguments, **options))
        return boosters[-1]

    monkeypatch.setattr(lightgbm, "train", kept)
    rows, labels = clusters(200, classes)
    trees = fit_trees(rows, labels, seed=3, rounds=ROUNDS, folds=0)
    others, _ = clusters(300, classes, seed=1)
    (booster,) = boosters
    raw = booster.predict(sp.csr_matrix(others), raw_score=True)
    expected = np.log(np.bincount(labels) / len(labels)) + (
        np.stack([np.zeros(len(raw)), raw], axis=1) if classes == 2 else raw
    )
    np.testing.assert_allclose(trees.decision_function(others), expected, rtol=1e-10, atol=1e-12)
    assert len(trees.starts_) == ROUNDS * (1 if classes == 2 else classes)


@each_count
def test_every_leaf_is_a_newton_step_of_the_log_loss(
    classes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Every row counts in every tree.
    monkeypatch.setitem(LIGHTGBM_SETTINGS, "bagging_freq", 0)
    rows, labels = clusters(150, classes)
    trees = fit_trees(rows, labels, seed=0, rounds=5, folds=0)
    scores = np.tile(np.log(np.bincount(labels) / len(labels)), (len(rows), 1))
    # For many classes LightGBM takes H from Friedman's bound, which is C / (C - 1) times as large.
    bound = 1.0 if classes == 2 else classes / (classes - 1)
    per_round = 1 if classes == 2 else classes
    splits = 0
    for first in range(0, len(trees.starts_), per_round):
        shares = softmax(scores, axis=1)  # all trees of a round start from the same scores
        for tree in range(first, first + per_round):
            score = int(trees.tree_class_[tree])
            leaves = [leaf_of(trees, int(trees.starts_[tree]), row) for row in rows]
            for leaf in set(leaves):
                here = np.array(leaves) == leaf
                p = shares[here, score]
                gradient = float((p - (labels[here] == score)).sum())
                curvature = float((bound * p * (1 - p)).sum())
                step = -0.05 * gradient / (curvature + 1.0)
                assert trees.value_[leaf] == pytest.approx(step, rel=1e-4, abs=1e-6)
                scores[here, score] += trees.value_[leaf]
            splits += len(set(leaves)) - 1
    assert splits > 5 * per_round


def test_each_leaf_has_its_least_rows_and_each_tree_its_most_leaves() -> None:
    rows, labels = clusters(400, 2)
    trees = fit_trees(rows, labels, seed=0, rounds=ROUNDS, folds=0)
    ends = [*trees.starts_[1:], len(trees.value_)]
    for start, end in zip(trees.starts_, ends, strict=True):
        assert 2 <= (trees.left_[start:end] < 0).sum() <= 15
        counts = np.unique([leaf_of(trees, int(start), row) for row in rows], return_counts=True)[1]
        assert counts.min() >= 400 // 40  # of a bag, so of all rows at least as many


# What a fit learns, and how sure it is.


@each_count
def test_the_temperature_makes_held_out_rows_likeliest(classes: int) -> None:
    rows, labels = clusters(90, classes)
    trees = fit_trees(rows, labels, seed=4, rounds=ROUNDS, folds=3)
    fold_of = stratified_folds(labels, 3, 4)
    held_out = np.zeros((90, classes))
    for fold in range(3):
        part, kept = np.flatnonzero(fold_of == fold), np.flatnonzero(fold_of != fold)
        without = fit_trees(rows[kept], labels[kept], seed=4, rounds=ROUNDS, folds=0)
        held_out[part] = walked(without, rows[part])
    factor = inverse_temperature(torch.from_numpy(held_out), torch.from_numpy(labels))
    assert trees.inverse_temperature_ == factor
    assert factor != 1.0
    plain = fit_trees(rows, labels, seed=4, rounds=ROUNDS, folds=0)
    np.testing.assert_array_equal(plain.decision_function(rows), trees.decision_function(rows))
    expected = softmax(factor * trees.decision_function(rows), axis=1)
    found = trees.calibrated()
    np.testing.assert_allclose(found.predict_proba(rows, classes), expected, rtol=1e-9)
    assert found.calibrated().predict_proba(rows, classes) == pytest.approx(expected)
    assert min(INVERSE_TEMPERATURES) <= factor <= max(INVERSE_TEMPERATURES)


def test_calibration_lowers_the_log_loss_where_labels_are_noise() -> None:
    rng = np.random.default_rng(0)
    rows, labels = rng.normal(size=(300, 5)), rng.integers(0, 3, 300)
    trees = fit_trees(rows[:150], labels[:150], seed=0, rounds=60)
    assert trees.inverse_temperature_ < 0.5

    def loss(of: BoostedTrees) -> float:
        scores = log_softmax(of.decision_function(rows[150:]), axis=1)
        return -float(scores[np.arange(150), labels[150:]].mean())

    assert loss(trees.calibrated()) < loss(trees) - 0.1
    assert loss(trees.calibrated()) < math.log(3) + 0.05


def test_trees_find_what_no_line_separates() -> None:
    rng = np.random.default_rng(0)
    rows = rng.uniform(-1, 1, size=(600, 2))
    labels = (np.abs(rows[:, 0]) > 0.5).astype(np.int64)
    trees = fit_trees(rows[:300], labels[:300], seed=0)
    right = trees.predict_proba(rows[300:], 2).argmax(axis=1) == labels[300:]
    assert right.mean() > 0.95


def test_a_class_with_one_label_is_held_out_of_no_fold() -> None:
    rows, labels = clusters(60, 2)
    labels[7] = 5
    trees = fit_trees(rows, labels, seed=0, rounds=ROUNDS)
    assert trees.classes_.tolist() == [0, 1, 5]
    assert trees.inverse_temperature_ > 0
    found = trees.calibrated().predict_proba(rows, 7)
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    assert (found[:, [0, 1, 5]] > 0).all()
    assert (found[:, [2, 3, 4, 6]] == 0).all()


def test_without_a_held_out_row_nothing_is_calibrated() -> None:
    trees = fit_trees(np.eye(3), np.arange(3), seed=0, rounds=ROUNDS)
    assert math.isnan(trees.inverse_temperature_)
    assert trees.calibrated() is trees
    np.testing.assert_allclose(trees.predict_proba(np.eye(3), 3), 1 / 3)  # too few rows to split


@pytest.mark.parametrize("rows", [np.zeros((8, 0)), np.ones((8, 2))], ids=["none", "constant"])
def test_columns_that_say_nothing_give_the_class_shares(rows: Floats) -> None:
    labels = np.array([0, 0, 0, 0, 0, 2, 2, 3])
    trees = fit_trees(rows, labels, seed=0, folds=0)
    expected = np.tile([5 / 8, 0, 2 / 8, 1 / 8], (8, 1))
    np.testing.assert_allclose(trees.predict_proba(rows, 4), expected, atol=1e-12)


@each_count
def test_same_seed_gives_same_bytes(classes: int) -> None:
    rows, labels = clusters(100, classes)

    def fitted(seed: int, columns: Any = rows) -> bytes:
        return save(fit_trees(columns, labels, seed=seed, rounds=ROUNDS).to_tensors())

    before = torch.random.get_rng_state(), np.random.get_state(legacy=False)  # noqa: NPY002
    assert fitted(5) == fitted(5) == fitted(5, sp.csr_array(rows))
    torch.testing.assert_close(torch.random.get_rng_state(), before[0])
    assert str(np.random.get_state(legacy=False)) == str(before[1])  # noqa: NPY002
    assert fitted(5) != fitted(6)
    assert fitted(2**40)  # more than LightGBM's seeds


# Files.


@each_count
def test_trees_survive_a_safetensors_file(classes: int) -> None:
    rows, labels = clusters(100, classes)
    trees = fit_trees(rows, labels, seed=0, rounds=ROUNDS)
    data = save(trees.to_tensors())
    loaded = BoostedTrees.from_tensors(load(data))
    assert save(loaded.to_tensors()) == data
    assert isinstance(loaded.num_columns_, int)
    np.testing.assert_array_equal(loaded.decision_function(rows), trees.decision_function(rows))
    assert loaded.inverse_temperature_ == trees.inverse_temperature_


def test_trees_without_a_split_or_a_temperature_survive_a_file() -> None:
    trees = fit_trees(np.zeros((4, 0)), np.array([0, 0, 1, 1]), seed=0, folds=0)
    loaded = BoostedTrees.from_tensors(load(save(trees.to_tensors())))
    assert not len(loaded.starts_)
    assert math.isnan(loaded.inverse_temperature_)
    np.testing.assert_allclose(loaded.predict_proba(np.zeros((2, 0)), 2), 0.5)


Tensors = dict[str, NDArray[Any]]


def put(name: str, place: int, value: float) -> Callable[[Tensors], Tensors]:
    """A change of one entry."""

    def change(tensors: Tensors) -> Tensors:
        array = tensors[name].copy()
        array[place] = value
        return tensors | {name: array}

    return change


def without_last(name: str) -> Callable[[Tensors], Tensors]:
    return lambda tensors: tensors | {name: tensors[name][:-1]}


def cast(name: str, kind: str) -> Callable[[Tensors], Tensors]:
    return lambda tensors: tensors | {name: tensors[name].astype(kind)}


CHILD = "has a child that does not come after its parent in its tree"
TREES = "does not divide the nodes into trees"
INFINITE = "has entries that are not finite"
CODES = "is not distinct codes in ascending order"

# Of `made_by_hand`: nodes 0 to 4 are the first tree, with 0 and 2 inside; 5 is the second.
TAMPERED = [
    (lambda t: {k: v for k, v in t.items() if k != "value"}, "value", "is missing"),
    (cast("threshold", "float32"), "threshold", "is no row of float64"),
    (cast("left", "int64"), "left", "is no row of int32"),
    (lambda t: t | {"base": t["base"][None]}, "base", "is no row of float64"),
    (lambda t: t | {"num_columns": np.array([3, 3])}, "num_columns", "is not one number"),
    (lambda t: t | {"inverse_temperature": np.zeros(0)}, "inverse_temperature", "is not one"),
    (without_last("feature"), "feature", "has not 6 entries, as 'value' has"),
    (without_last("threshold"), "threshold", "has not 6 entries"),
    (without_last("left"), "left", "has not 6 entries"),
    (without_last("right"), "right", "has not 6 entries"),
    (without_last("value"), "feature", "has not 5 entries"),
    (put("threshold", 0, np.nan), "threshold", INFINITE),
    (put("value", 3, np.inf), "value", INFINITE),
    (put("base", 1, -np.inf), "base", INFINITE),
    (put("inverse_temperature", 0, 0.0), "inverse_temperature", "is not a positive number"),
    (put("inverse_temperature", 0, -1.0), "inverse_temperature", "is not a positive number"),
    (put("inverse_temperature", 0, np.inf), "inverse_temperature", "is not a positive number"),
    (put("starts", 0, 1), "starts", TREES),
    (put("starts", 1, 0), "starts", TREES),
    (put("starts", 1, 6), "starts", TREES),
    (put("starts", 1, -1), "starts", TREES),
    (lambda t: t | {"starts": t["starts"][:0]}, "starts", TREES),
    (put("left", 0, 0), "left", CHILD),  # a walk without end
    (put("right", 2, 0), "right", CHILD),
    (put("left", 2, 5), "left", CHILD),  # into the next tree
    (put("right", 0, 6), "right", CHILD),
    (put("right", 0, -1), "right", CHILD),
    (put("left", 1, -2), "left", CHILD),
    (put("right", 1, 2), "right", CHILD),
    (put("feature", 0, 3), "feature", "names a column that is not among the 3"),
    (put("feature", 2, -1), "feature", "names a column that is not among the 3"),
    (lambda t: t | {"classes": t["classes"][:0]}, "classes", CODES),
    (put("classes", 0, -1), "classes", CODES),
    (put("classes", 0, 3), "classes", CODES),
    (put("classes", 0, 4), "classes", CODES),
    (without_last("base"), "base", "has not 2 entries, as 'classes' has"),
    (without_last("tree_class"), "tree_class", "has not 2 entries, as 'starts' has"),
    (put("tree_class", 0, 2), "tree_class", "names a class that is not among the 2"),
    (put("tree_class", 1, -1), "tree_class", "names a class that is not among the 2"),
]


@pytest.mark.parametrize(("change", "name", "fault"), TAMPERED)
def test_tampered_tensors_are_refused(
    change: Callable[[Tensors], Tensors], name: str, fault: str
) -> None:
    tensors = made_by_hand().to_tensors()
    assert BoostedTrees.from_tensors(tensors).to_tensors().keys() == tensors.keys()
    with pytest.raises(DataError) as refused:
        BoostedTrees.from_tensors(change(tensors))
    said = str(refused.value)
    assert said.startswith(f"The saved trees cannot be read: '{name}' {fault}")
    assert said.endswith("; fit and save the model again.")


# What is refused.


@pytest.mark.parametrize("broken", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_columns_that_are_not_finite_are_refused(broken: float, kind: Callable[..., Any]) -> None:
    rows, labels = clusters(30, 2)
    trees = fit_trees(rows, labels, seed=0, rounds=2)
    rows[3, 1] = broken
    with pytest.raises(DataError, match="columns have entries that are not finite; replace"):
        fit_trees(kind(rows), labels, seed=0)
    with pytest.raises(DataError, match="columns have entries that are not finite; replace"):
        trees.decision_function(kind(rows))


def test_misuse_is_named() -> None:
    rows, labels = clusters(30, 2)
    trees = fit_trees(rows, labels, seed=0, rounds=2)
    with pytest.raises(DataError, match="There are 7 columns, but the trees were fitted on 8"):
        trees.decision_function(rows[:, :7])
    with pytest.raises(UsageError, match=r"num_classes is 1, but .* class 1; pass 2 or more"):
        trees.predict_proba(rows, 1)
    with pytest.raises(DataError, match="30 training labels are of 1 class"):
        fit_trees(rows, np.zeros(30, dtype=int), seed=0)
    with pytest.raises(DataError, match="one integer class code for each of the 30"):
        fit_trees(rows, labels[:29], seed=0)


@pytest.mark.parametrize("kind", [ImportError, OSError])
def test_without_lightgbm_the_remedy_is_said(
    kind: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = builtins.__import__

    def refusing(name: str, *arguments: Any, **options: Any) -> Any:
        if name == "lightgbm":
            raise kind("libgomp.so.1 is not there")
        return plain(name, *arguments, **options)

    rows, labels = clusters(30, 2)
    trees = fit_trees(rows, labels, seed=0, rounds=2)
    monkeypatch.setattr(builtins, "__import__", refusing)
    with pytest.raises(UsageError) as refused:
        fit_trees(rows, labels, seed=0)
    assert str(refused.value) == (
        "Boosted trees need LightGBM, which cannot be loaded (libgomp.so.1 is not there): install "
        "it with `pip install lightgbm`, and OpenMP with the packages of the system (libgomp1)."
    )
    loaded = BoostedTrees.from_tensors(load(save(trees.to_tensors())))
    assert np.isfinite(loaded.predict_proba(rows, 2)).all()  # fitted trees need NumPy alone
