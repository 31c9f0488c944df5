r"""A head of node classification that is not linear: gradient boosted trees on compact columns.

.. math:: F_c(u) = b_c + \sum_{i=1}^{R} T_{i,c}(x_u), \qquad
          p(c \mid u) = \mathrm{softmax}(t\, F(u))_c

b is the log share of each class. Every tree T splits single columns at thresholds, and its leaves
have :math:`-\eta\, G / (H + \lambda)` of the derivatives G and H of the log-loss at the scores so
far: Friedman, "Greedy Function Approximation: A Gradient Boosting Machine", Annals of Statistics
29, 2001. LightGBM grows them: Ke and others, "LightGBM: A Highly Efficient Gradient Boosting
Decision Tree", NIPS 2017. What is kept are plain arrays, which NumPy reads. Two classes share one
tree a round. Cross-validation chooses the inverse temperature t, as for the logistic head.

Cost: `fit_trees` O(R C n D) for n rows, D columns, C classes and R rounds, at the most (zeros cost
nothing), once and in each of the folds; `predict_proba` O(R C V) times the depth of the trees;
`tree_columns` O(E D), and as much memory as the means of means have entries.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax
from sklearn.utils.extmath import randomized_svd

from xtcl.errors import DataError, UsageError
from xtcl.tasks.logistic import Codes, Floats, checked_labels, inverse_temperature, stratified_folds

LIGHTGBM_SETTINGS: dict[str, Any] = {
    "num_leaves": 15,
    "learning_rate": 0.05,
    "feature_fraction_bynode": 0.3,
    "bagging_fraction": 0.8,
    "bagging_freq": 1,
    "lambda_l2": 1.0,
    "boost_from_average": False,  # the first scores are given
    "use_missing": False,
    "deterministic": True,
    "force_col_wise": True,
    "verbosity": -1,
}
"""What LightGBM is told, beside the rows a leaf has at least: a fortieth of them, 3 to 20."""

NUM_ATTRIBUTE_DIRECTIONS = 64
"""Of more attributes, the neighbours' means are of so many main directions."""

_PLACES_PER_BLOCK = 2**20  # of rows and trees, or of rows and columns, that are held at a time


@dataclass(frozen=True)
class BoostedTrees:
    """The nodes of all trees, one tree after the other, parents before their children.

    A row goes to the left child where its value in column `feature_` is at most `threshold_`. A
    leaf has no children (-1), and its `value_` is added to the score of its tree's class.
    """

    feature_: NDArray[np.int32]
    threshold_: Floats
    left_: NDArray[np.int32]
    right_: NDArray[np.int32]
    value_: Floats
    starts_: NDArray[np.int32]
    """The root of each tree."""
    tree_class_: NDArray[np.int32]
    """For each tree the place in `classes_` whose score it adds to."""
    base_: Floats
    """The scores before the first tree."""
    classes_: Codes
    """The class codes that have a training row, sorted ascending."""
    num_columns_: int
    inverse_temperature_: float
    """The factor of the scores that calibrates probabilities; nan if no row was held out."""

    def predict_proba(self, columns: Any, num_classes: int) -> Floats:
        """Probabilities [n, num_classes], column c for code c; 0 where c has no training row."""
        if num_classes <= self.classes_[-1]:
            raise UsageError(
                f"num_classes is {num_classes}, but the trees were fitted on class "
                f"{self.classes_[-1]}; pass {self.classes_[-1] + 1} or more."
            )
        scores = self.decision_function(columns)
        probability = np.zeros((len(scores), num_classes))
        probability[:, self.classes_] = softmax(scores, axis=1)
        return probability

    def decision_function(self, columns: Any) -> Floats:
        """Scores [n, classes] of rows [n, D], a column for each of `classes_`."""
        rows = _finite_rows(columns)
        if rows.shape[1] != self.num_columns_:
            raise DataError(
                f"There are {rows.shape[1]} columns, but the trees were fitted on "
                f"{self.num_columns_}; make them with tree_columns and the same settings."
            )
        scores = np.tile(self.base_, (rows.shape[0], 1))
        if not len(self.starts_):
            return scores
        inner = self.left_ >= 0
        used, place = np.unique(self.feature_[inner], return_inverse=True)
        feature = np.zeros(len(inner), dtype=np.int64)
        feature[inner] = place
        # A leaf leads to itself, so that all trees can be walked down together.
        itself = np.arange(len(inner))
        children = np.stack([self.left_, self.right_], axis=1).astype(np.int64)
        children = np.where(inner[:, None], children, itself[:, None]).ravel()
        to_class = np.zeros((len(self.starts_), len(self.base_)))
        to_class[np.arange(len(self.starts_)), self.tree_class_] = 1.0
        block = max(1, _PLACES_PER_BLOCK // max(len(self.starts_), len(used)))
        for start in range(0, len(scores), block):
            part = rows[start : start + block][:, used].toarray()
            node = np.tile(self.starts_.astype(np.int64), (len(part), 1))
            while inner[node].any():
                values = part[np.arange(len(part))[:, None], feature[node]] if len(used) else 0.0
                node = children[2 * node + (values > self.threshold_[node])]
            scores[start : start + block] += self.value_[node] @ to_class
        return scores

    def calibrated(self) -> BoostedTrees:
        """The same trees with calibrated probabilities; they predict the same classes."""
        factor = self.inverse_temperature_
        if not factor > 0:  # nan: no row was held out
            return self
        value, base = factor * self.value_, factor * self.base_
        return replace(self, value_=value, base_=base, inverse_temperature_=1.0)

    def to_tensors(self) -> dict[str, NDArray[Any]]:
        """Everything as arrays, for a safetensors file."""
        return {name.rstrip("_"): np.atleast_1d(getattr(self, name)) for name in _KINDS}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, NDArray[Any]]) -> BoostedTrees:
        """The trees that `to_tensors` wrote; refuses arrays that are no trees."""
        read: dict[str, Any] = {}
        for name, dtype in _KINDS.items():
            array = tensors.get(name.rstrip("_"))
            if array is None:
                raise _damaged(name, "is missing")
            if array.ndim != 1 or array.dtype != dtype:
                raise _damaged(name, f"is no row of {np.dtype(dtype).name}")
            read[name] = array
        for name in _SCALARS:
            if len(read[name]) != 1:
                raise _damaged(name, "is not one number")
            read[name] = read[name].item()
        trees = cls(**read)
        _check(trees)
        return trees


_SCALARS = ("num_columns_", "inverse_temperature_")
_KINDS: dict[str, type[np.generic]] = {
    "feature_": np.int32,
    "threshold_": np.float64,
    "left_": np.int32,
    "right_": np.int32,
    "value_": np.float64,
    "starts_": np.int32,
    "tree_class_": np.int32,
    "base_": np.float64,
    "classes_": np.int64,
    "num_columns_": np.int64,
    "inverse_temperature_": np.float64,
}


def _damaged(name: str, fault: str) -> DataError:
    return DataError(
        f"The saved trees cannot be read: '{name.rstrip('_')}' {fault}; fit and save the model "
        "again."
    )


def _check(trees: BoostedTrees) -> None:
    """Refuse arrays that no fit makes: walking them could end nowhere, or outside of the arrays."""
    nodes, leaf = len(trees.value_), trees.left_ < 0
    for name in ("feature_", "threshold_", "left_", "right_"):
        if len(getattr(trees, name)) != nodes:
            raise _damaged(name, f"has not {nodes} entries, as 'value' has")
    for name in ("threshold_", "value_", "base_"):
        if not np.isfinite(getattr(trees, name)).all():
            raise _damaged(name, "has entries that are not finite")
    if not (np.isnan(trees.inverse_temperature_) or 0 < trees.inverse_temperature_ < np.inf):
        raise _damaged("inverse_temperature_", "is not a positive number")
    starts, ends = trees.starts_, np.append(trees.starts_, nodes)[1:]
    if (starts[:1] != 0).any() or (ends <= starts).any() or (nodes and not len(starts)):
        raise _damaged("starts_", "does not divide the nodes into trees")
    end = np.repeat(ends, ends - starts)
    for name in ("left_", "right_"):
        child = getattr(trees, name)
        inside = (child > np.arange(nodes)) & (child < end)
        if not np.where(leaf, child == -1, inside).all():
            raise _damaged(name, "has a child that does not come after its parent in its tree")
    if ((trees.feature_ < 0) | (trees.feature_ >= trees.num_columns_))[~leaf].any():
        raise _damaged("feature_", f"names a column that is not among the {trees.num_columns_}")
    classes = trees.classes_
    if not len(classes) or classes[0] < 0 or (np.diff(classes) <= 0).any():
        raise _damaged("classes_", "is not distinct codes in ascending order")
    if len(trees.base_) != len(classes):
        raise _damaged("base_", f"has not {len(classes)} entries, as 'classes' has")
    if len(trees.tree_class_) != len(starts):
        raise _damaged("tree_class_", f"has not {len(starts)} entries, as 'starts' has")
    if ((trees.tree_class_ < 0) | (trees.tree_class_ >= len(classes))).any():
        raise _damaged("tree_class_", f"names a class that is not among the {len(classes)}")


def fit_trees(
    columns: Any, codes: ArrayLike, *, seed: int, rounds: int = 150, folds: int = 3
) -> BoostedTrees:
    """Fit training rows [n, D], dense or sparse, to class codes [n].

    The inverse temperature is the one that makes the rows of held-out folds likeliest; with
    `folds=0` there is none. The same seed and number of threads give the same bytes.
    """
    rows = _finite_rows(columns)
    classes, places = checked_labels(codes, rows.shape[0])
    factor = np.nan
    fold_of = stratified_folds(places, folds, seed) if folds else np.full(len(places), -1)
    if (fold_of >= 0).any():
        scores = np.zeros((len(places), len(classes)))
        for fold in range(folds):
            held_out, kept = np.flatnonzero(fold_of == fold), np.flatnonzero(fold_of != fold)
            if len(held_out):
                trees = _boost(rows[kept], places[kept], classes, seed, rounds)
                scores[held_out] = trees.decision_function(rows[held_out])
        known = fold_of >= 0
        factor = inverse_temperature(
            torch.from_numpy(scores[known]), torch.from_numpy(places[known])
        )
    return replace(_boost(rows, places, classes, seed, rounds), inverse_temperature_=factor)


def _boost(
    rows: sp.csr_array, places: Codes, classes: Codes, seed: int, rounds: int
) -> BoostedTrees:
    """Trees of LightGBM as plain arrays; `classes[places]` are the labels."""
    try:
        from lightgbm import Dataset, train
    except (ImportError, OSError) as missing:  # OSError: the system lacks OpenMP (libgomp)
        raise UsageError(
            f"Boosted trees need LightGBM, which cannot be loaded ({missing}): install it with "
            "`pip install lightgbm`, and OpenMP with the packages of the system (libgomp1)."
        ) from missing

    base = np.log(np.bincount(places, minlength=len(classes)) / len(places))
    two = len(classes) == 2
    settings: dict[str, Any] = {
        **LIGHTGBM_SETTINGS,
        "objective": "binary" if two else "multiclass",
        "num_class": 1 if two else len(classes),
        "min_data_in_leaf": max(3, min(20, len(places) // 40)),
        "seed": seed % 2**31,
        "num_threads": torch.get_num_threads(),
    }
    trees = []
    if rows.shape[1] and rounds:
        start = np.tile(base[1:] - base[:1] if two else base, (len(places), 1))
        data = Dataset(
            sp.csr_matrix(rows),  # LightGBM does not know arrays
            places,
            init_score=start.ravel() if two else start,
            params=settings,
            free_raw_data=True,
        )
        trees = train(settings, data, rounds).dump_model()["tree_info"]
    nodes: list[_Node] = []
    starts = []
    for tree in trees:
        starts.append(len(nodes))
        _flatten(tree["tree_structure"], nodes)
    feature, threshold, left, right, value = zip(*nodes, strict=True) if nodes else ((),) * 5
    places_of_trees = [1] * len(trees) if two else np.arange(len(trees)) % len(classes)
    return BoostedTrees(
        feature_=np.array(feature, dtype=np.int32),
        threshold_=np.array(threshold, dtype=np.float64),
        left_=np.array(left, dtype=np.int32),
        right_=np.array(right, dtype=np.int32),
        value_=np.array(value, dtype=np.float64),
        starts_=np.array(starts, dtype=np.int32),
        tree_class_=np.array(places_of_trees, dtype=np.int32),
        base_=base,
        classes_=classes,
        num_columns_=rows.shape[1],
        inverse_temperature_=np.nan,
    )


_Node = tuple[int, float, int, int, float]
"""Column, threshold, left and right child, value."""


def _flatten(tree: dict[str, Any], nodes: list[_Node]) -> int:
    """Append a tree of `dump_model`, and return the place of its root."""
    place = len(nodes)
    if "split_feature" not in tree:
        nodes.append((0, 0.0, -1, -1, tree["leaf_value"]))
        return place
    nodes.append((0, 0.0, -1, -1, 0.0))  # its children are not known yet
    left, right = (_flatten(tree[side], nodes) for side in ("left_child", "right_child"))
    nodes[place] = (tree["split_feature"], tree["threshold"], left, right, 0.0)
    return place


def _finite_rows(columns: Any) -> sp.csr_array:
    rows = sp.csr_array(columns)
    if not np.isfinite(rows.data).all():
        raise DataError("The columns have entries that are not finite; replace or drop them.")
    return rows


def tree_columns(
    attributes: Any,
    adjacency: sp.csr_array,
    labels: Codes,
    num_classes: int,
    *,
    neighbours: bool = True,
    directions: NDArray[np.float32] | None = None,
    extra: NDArray[Any] | None = None,
) -> sp.csr_array:
    """What trees read of every node: columns [V, D], float32.

    The attributes. With `neighbours` also the mean over a node's neighbours, the mean of their
    means, the columns of `degree_columns` and those of `label_columns`. With `directions` the means
    are of the attributes times these, beside which that product is read, too: the single words of a
    few neighbours split few nodes apart, and cost most of the time. Then the dense columns of
    `extra`, such as directions of an embedding.
    """
    own = sp.csr_array(attributes, dtype=np.float32)
    parts = [own]
    if directions is not None and directions.shape[1]:
        own = sp.csr_array(np.asarray(own @ directions, dtype=np.float32))
        parts.append(own)
    if neighbours:
        degree = np.asarray(adjacency.sum(axis=1), dtype=np.float64)
        mean = sp.diags_array(_inverse(degree).astype(np.float32), format="csr") @ adjacency
        once = sp.csr_array(mean @ own)
        parts += [once, sp.csr_array(mean @ once)]
        parts += [sp.csr_array(degree_columns(adjacency))]
        parts += [sp.csr_array(label_columns(adjacency, labels, num_classes))]
    if extra is not None:
        parts.append(sp.csr_array(np.asarray(extra, dtype=np.float32)))
    return sp.csr_array(sp.hstack(parts, format="csr", dtype=np.float32))


def attribute_directions(attributes: Any, seed: int) -> NDArray[np.float32]:
    """The leading right singular vectors of the attributes, [D, NUM_ATTRIBUTE_DIRECTIONS].

    Of so few attributes that they are directions themselves, [D, 0]. Halko, Martinsson and Tropp,
    "Finding Structure with Randomness", SIAM Review 53, 2011, as scikit-learn has it; O(nnz) for
    each direction.
    """
    number = min(NUM_ATTRIBUTE_DIRECTIONS, *attributes.shape)
    if attributes.shape[1] <= NUM_ATTRIBUTE_DIRECTIONS:
        return np.zeros((attributes.shape[1], 0), dtype=np.float32)
    rows = sp.csr_matrix(attributes, dtype=np.float32)  # scikit-learn does not know arrays
    _, _, directions = randomized_svd(rows, number, n_iter=4, random_state=seed % 2**32)
    return np.asarray(directions.T, dtype=np.float32)


def degree_columns(adjacency: sp.csr_array) -> NDArray[np.float32]:
    """The degree and the mean degree of the neighbours, [V, 2]; 0 for a node without links."""
    degree = np.asarray(adjacency.sum(axis=1), dtype=np.float64)
    return np.stack([degree, (adjacency @ degree) * _inverse(degree)], axis=1).astype(np.float32)


def label_columns(adjacency: sp.csr_array, labels: Codes, num_classes: int) -> NDArray[np.float32]:
    r"""Shares of labels around each node and the counts they are of, [V, 2 (C + 1)].

    .. math:: q_c(u) = \frac{n_c(u) + \pi_c}{\sum_k n_k(u) + 1}

    n counts the known labels among the neighbours of u, then at the ends of the paths of two links
    from u that do not lead back to u. So no label is among those of its own node: it enters through
    the class shares :math:`\pi` alone, which are the same numbers for all nodes. Without a known
    label around, q is :math:`\pi`.
    """
    known = np.flatnonzero(labels >= 0)
    own = np.zeros((len(labels), num_classes))
    own[known, labels[known]] = 1.0
    prior = own.sum(axis=0) / max(1, len(known))
    near = adjacency @ own
    degree = np.asarray(adjacency.sum(axis=1), dtype=np.float64)
    parts = []
    for counts in (near, adjacency @ near - degree[:, None] * own):
        total = counts.sum(axis=1, keepdims=True)
        parts += [(counts + prior) / (total + 1.0), total]
    return np.hstack(parts).astype(np.float32)


def _inverse(degree: Floats) -> Floats:
    return np.where(degree > 0, 1.0 / np.maximum(degree, 1.0), 0.0)
