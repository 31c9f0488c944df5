"""LightGBM against scikit-learn's HistGradientBoostingClassifier, on the columns of the head.

    OMP_NUM_THREADS=1 python benchmarks/tree_libraries.py [--datasets cora,...] [--splits 2]
        [--data DIR] [--more DIR]

Both get the columns of `trees-neighbours` (`tree_columns`) for 10 % of the labels, on splits from
seed 0. They have the same settings: 150 rounds, 15 leaves, rate 0.05, L2 1, the same least rows in
a leaf, 255 bins and 30 % of the columns, drawn for each split. LightGBM draws 80 % of the rows for
each tree, too. LightGBM reads sparse columns. scikit-learn reads only dense ones, in float64: "MiB"
is what the columns of all nodes need in either form.

"fit s" is one fit without folds, and "all nodes s" the probabilities of all nodes, both in
wall-clock seconds; for scikit-learn with the dense copies, made block by block. "test %" is the
accuracy and "log loss" the mean of -log p, as fitted; "calibrated" is the log loss with the inverse
temperature that three folds of the training rows choose (`fit_trees`), the same folds for both.

--more names a folder of plain .npz files, which have `edge_index`, `y` and the parts of a CSR
matrix: `x_data`, `x_indices`, `x_indptr`, `x_shape`.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from scipy.special import log_softmax
from sklearn.ensemble import HistGradientBoostingClassifier

from xtcl.graph.datasets.load import load_dataset
from xtcl.graph.graph import Graph
from xtcl.graph.splits import node_split
from xtcl.report.charts import table
from xtcl.tasks.logistic import inverse_temperature, stratified_folds
from xtcl.tasks.training_data import training_data
from xtcl.tasks.trees import LIGHTGBM_SETTINGS, fit_trees, tree_columns

DATASETS = "cora,pubmed,twitch_england"
ROUNDS = 150
FOLDS = 3
BLOCK = 1000  # rows that scikit-learn gets at a time
Floats = NDArray[np.float64]
Scorer = Callable[[sp.csr_array], Floats]
"""Rows to scores [n, C] up to a constant of each row: their softmax are probabilities."""


def lightgbm(rows: sp.csr_array, codes: NDArray[np.int64], seed: int) -> Scorer:
    """The trees of the package."""
    return fit_trees(rows, codes, seed=seed, rounds=ROUNDS, folds=0).decision_function


def scikit_learn(rows: sp.csr_array, codes: NDArray[np.int64], seed: int) -> Scorer:
    """The same settings under the names of scikit-learn."""
    model = HistGradientBoostingClassifier(
        learning_rate=LIGHTGBM_SETTINGS["learning_rate"],
        max_iter=ROUNDS,
        max_leaf_nodes=LIGHTGBM_SETTINGS["num_leaves"],
        min_samples_leaf=max(3, min(20, len(codes) // 40)),
        l2_regularization=LIGHTGBM_SETTINGS["lambda_l2"],
        max_features=LIGHTGBM_SETTINGS["feature_fraction_bynode"],
        early_stopping=False,
        random_state=seed,
    ).fit(rows.toarray(), codes)

    def score(rows: sp.csr_array) -> Floats:
        found = [
            np.asarray(model.decision_function(rows[start : start + BLOCK].toarray()))
            for start in range(0, rows.shape[0], BLOCK)
        ]
        scores = np.concatenate(found)
        return scores if scores.ndim == 2 else np.stack([np.zeros(len(scores)), scores], axis=1)

    return score


LIBRARIES: dict[str, Callable[[sp.csr_array, NDArray[np.int64], int], Scorer]] = {
    "LightGBM": lightgbm,
    "scikit-learn": scikit_learn,
}


class Result(NamedTuple):
    """What one library did on one split."""

    fit_seconds: float
    all_seconds: float
    accuracy: float
    log_loss: float
    calibrated: float


def measure(graph: Graph, seed: int) -> tuple[sp.csr_array, dict[str, Result]]:
    """The columns of a split, and both libraries on them."""
    split = node_split(graph, train=0.1, seed=seed)
    side = training_data(graph, split)
    known = side.labelled
    codes, truth = side.labels[known], np.asarray(graph.labels)[split.test]
    columns = tree_columns(
        side.graph.attributes, side.graph.adjacency, side.labels, graph.num_classes
    )
    rows, fold_of = columns[known], stratified_folds(codes, FOLDS, seed)
    results = {}
    for name, fit in LIBRARIES.items():
        start = time.perf_counter()
        score = fit(rows, codes, seed)
        fitted = time.perf_counter()
        scores = score(columns)[split.test]
        done = time.perf_counter()
        held_out = np.zeros((len(codes), scores.shape[1]))
        for fold in range(FOLDS):
            part = np.flatnonzero(fold_of == fold)
            kept = np.flatnonzero(fold_of != fold)
            held_out[part] = fit(rows[kept], codes[kept], seed)(rows[part])
        factor = inverse_temperature(torch.from_numpy(held_out), torch.from_numpy(codes))
        right = scores.argmax(axis=1) == truth
        results[name] = Result(
            fitted - start,
            done - fitted,
            100 * float(right.mean()),
            loss(scores, truth),
            loss(factor * scores, truth),
        )
    return columns, results


def loss(scores: Floats, truth: NDArray[np.int64]) -> float:
    """The mean of -log p of the true class."""
    return -float(log_softmax(scores, axis=1)[np.arange(len(truth)), truth].mean())


def read_graph(name: str, data: str | None, more: Path | None) -> Graph:
    """A data set of the package, or one of the plain files."""
    path = None if more is None else more / f"{name}.npz"
    if path is None or not path.exists():
        return load_dataset(name, data)
    with np.load(path) as file:
        arrays: dict[str, Any] = dict(file)
    csr = (arrays["x_data"], arrays["x_indices"], arrays["x_indptr"])
    attributes = sp.csr_array(csr, shape=tuple(arrays["x_shape"]))
    return Graph.from_arrays(attributes, arrays["edge_index"], arrays["y"], name=name)


def mebibytes(columns: sp.csr_array, library: str) -> float:
    """Of the columns of all nodes: as they are, or dense in float64."""
    parts = (columns.data, columns.indices, columns.indptr)
    used = sum(part.nbytes for part in parts)
    return (used if library == "LightGBM" else 8 * columns.shape[0] * columns.shape[1]) / 2**20


def main() -> None:
    """Print a line for each library on each split, when it is there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--datasets", default=DATASETS)
    parser.add_argument("--splits", type=int, default=2)
    parser.add_argument("--data", default=os.environ.get("XTCL_DATA"))
    parser.add_argument("--more", type=Path, default=None)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    head = ["training rows x columns", "seed", "library", "MiB", "fit s", "all nodes s"]
    print(table([*head, "test %", "log loss", "calibrated"], []), flush=True)
    for name in chosen.datasets.split(","):
        graph = read_graph(name, chosen.data, chosen.more)
        for seed in range(chosen.splits):
            columns, results = measure(graph, seed)
            known = len(node_split(graph, train=0.1, seed=seed).train)
            for library, found in results.items():
                cells = [
                    f"{name} ({known:,} x {columns.shape[1]:,})",
                    str(seed),
                    library,
                    f"{mebibytes(columns, library):.0f}",
                    f"{found.fit_seconds:.1f}",
                    f"{found.all_seconds:.1f}",
                    f"{found.accuracy:.2f}",
                    f"{found.log_loss:.4f}",
                    f"{found.calibrated:.4f}",
                ]
                print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
