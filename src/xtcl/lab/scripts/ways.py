"""Other libraries' ways to classify nodes, measured on the splits of `xtcl evaluate cora`."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path

import numpy as np

from xtcl.graph.datasets.load import load_dataset
from xtcl.graph.graph import Graph
from xtcl.lab.experiments.records import RecordFile
from xtcl.model_selection.evaluation import make_split, standard_error
from xtcl.tasks.logistic import fit_logistic
from xtcl.tasks.training_data import TrainingData, training_data

Predict = Callable[[Graph, TrainingData, int], np.ndarray]
"""From the graph, the training data and a seed to a class code of every node."""


def by_logistic(rows: np.ndarray, side: TrainingData, seed: int) -> np.ndarray:
    """The classes that xtcl's logistic regression reads from an embedding."""
    head = fit_logistic(rows[side.labelled], side.labels[side.labelled], seed=seed)
    return np.asarray(head.predict_proba(rows, side.graph.num_classes).argmax(axis=1))


def measure(graph: Graph, ways: Mapping[str, Predict], seeds: range) -> dict[str, object]:
    """Test accuracy of every way on every split, in percent."""
    found: dict[str, object] = {}
    for name, predict in ways.items():
        runs, seconds = [], []
        for seed in seeds:
            split = make_split(graph, "nodes", seed)
            side = training_data(graph, split)
            start = time.perf_counter()
            predicted = predict(side.graph, side, seed)
            seconds.append(round(time.perf_counter() - start, 2))
            assert graph.labels is not None  # noqa: S101 - every data set has labels
            runs.append(round(100 * float((predicted == graph.labels)[split.test].mean()), 2))
        found[name] = {
            "mean": round(float(np.mean(runs)), 2),
            "stderr": round(standard_error(runs) or 0.0, 2),
            "runs": runs,
            "seconds": seconds,
        }
    return found


def main(description: str | None, package: str, folder: str, ways: Mapping[str, Predict]) -> None:
    """Measure the ways of a package on Cora, and write the record "cora"."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("results") / folder)
    chosen = parser.parse_args()
    found = {
        "dataset": "cora",
        "metric": "accuracy",
        "seeds": list(range(chosen.splits)),
        "version": version(package),
        "ways": measure(load_dataset("cora"), ways, range(chosen.splits)),
    }
    file = RecordFile(chosen.out / f"{folder}.jsonl")
    file.append("cora", found)
    file.fold()
