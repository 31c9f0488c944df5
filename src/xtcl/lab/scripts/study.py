"""What studies share: splits and seeds, options, records, and other libraries under one measure."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch

from xtcl.code_digest import source_digest
from xtcl.graph.datasets.load import load_dataset
from xtcl.graph.graph import Graph
from xtcl.lab.experiments.comparison import TABLE_DATASETS
from xtcl.lab.experiments.provenance import provenance
from xtcl.lab.experiments.records import RecordFile
from xtcl.model_selection.evaluation import make_split, standard_error
from xtcl.tasks import TASKS
from xtcl.tasks.logistic import fit_logistic
from xtcl.tasks.training_data import TrainingData, training_data

SPLITS = {"cora": 10, "citeseer": 10, "pubmed": 5, "computers": 5, "photo": 5}
"""Splits from seed 0 by data set; a split of the first two moves a figure by 0.6."""

TABLE_METHODS = ("xtcl-gcn", "xtcl-gat", "gcn", "gat", "propagation", "logistic")

FIRST_EXPLORATION_SEED = 1000
"""Splits from this seed on serve exploration; no reported figure uses them."""


def run_options(
    description: str | None,
    tasks: Sequence[str] = tuple(TASKS),
    datasets: Sequence[str] = TABLE_DATASETS,
) -> argparse.ArgumentParser:
    """A parser that knows --datasets, --tasks where there are several, --device and --data."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--datasets", type=names(datasets), default=datasets)
    if len(tasks) > 1:
        parser.add_argument("--tasks", type=names(tasks), default=tasks)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--data", default=os.environ.get("XTCL_DATA"))
    return parser


def names(known: Sequence[str]) -> Callable[[str], list[str]]:
    """Reads some of the known names, with commas between them."""

    def read(text: str) -> list[str]:
        chosen = text.split(",")
        for name in chosen:
            if name not in known:
                raise argparse.ArgumentTypeError(f"'{name}' is none of {', '.join(known)}")
        return chosen

    return read


SCRIPTS = source_digest(Path(__file__).parent.glob("*.py"))


def current_conditions(device: torch.device) -> dict[str, dict[str, str | int]]:
    """What a figure depends on, the code of the scripts included: they change parts of a system."""
    found = provenance(device)
    return found | {"versions": found["versions"] | {"scripts": SCRIPTS}}


def print_split(cell: str, seed: int, figure: float, seconds: float) -> None:
    """Print the figure of a split on stderr."""
    print(f"{cell} split {seed}: {figure:.2f} in {seconds:.1f} s", file=sys.stderr, flush=True)


def add_split(file: RecordFile, key: str, seed: int, value: Any) -> None:
    """Add what belongs to a split to the record with those of the other splits."""
    file.append(key, file.read().get(key, {}) | {str(seed): value})
    file.fold()


Predict = Callable[[Graph, TrainingData, int], np.ndarray]
"""From the graph, the training data and a seed to a class code of every node."""


def by_logistic(rows: np.ndarray, side: TrainingData, seed: int) -> np.ndarray:
    """The classes that xtcl's logistic regression reads from an embedding."""
    head = fit_logistic(rows[side.labelled], side.labels[side.labelled], seed=seed)
    return np.asarray(head.predict_proba(rows, side.graph.num_classes).argmax(axis=1))


def measure_ways(graph: Graph, ways: Mapping[str, Predict], seeds: range) -> dict[str, object]:
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


def write_ways(
    description: str | None, package: str, folder: str, ways: Mapping[str, Predict]
) -> None:
    """Measure a library's ways to classify nodes on Cora, and write the record "cora"."""
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
        "ways": measure_ways(load_dataset("cora"), ways, range(chosen.splits)),
    }
    file = RecordFile(chosen.out / f"{folder}.jsonl")
    file.append("cora", found)
    file.fold()
