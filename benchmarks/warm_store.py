"""Seconds from a graph to its positives without a store, with an empty one and with a full one.

    python benchmarks/warm_store.py [--datasets cora,citeseer] [--task nodes] [--cap 32]
        [--data DIR]

All in one run, with the same result to the byte. A warm fit counts patterns from the pairs in the
store and reads the positives. Where positives have to be sought among pairs of the store, because a
number or a seed is another, the similarities of the relation that breaks ties (attribute
distribution) are computed: all rows in exact mode, whose time is shown, single pairs with a cap.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from xtcl.graph.datasets.load import load_dataset
from xtcl.graph.graph import Graph
from xtcl.model_selection.evaluation import make_split
from xtcl.relations.attribute_distribution import AttributeDistribution
from xtcl.relations.store.relation_store import RelationStore
from xtcl.relations.view import TrainingView
from xtcl.tasks import make_task
from xtcl.tasks.fit_options import FitOptions
from xtcl.tasks.sampled_positives import sample_positives
from xtcl.tasks.training_data import training_data


def to_positives(
    training: Graph, task: str, cap: int | None, store: RelationStore | None
) -> tuple[float, bytes]:
    """Seconds from the training graph to every node's positives, and these."""
    kind = make_task(task)
    recipe = kind.recipe("gcn")
    recipe = replace(recipe, sampler=replace(recipe.sampler, cap=cap))
    start = time.perf_counter()
    found = sample_positives(training, kind, recipe, FitOptions(store=store))
    return time.perf_counter() - start, np.ascontiguousarray(found.positives).tobytes()


def tie_break_seconds(training: Graph) -> float:
    """Seconds for all rows of the relation that breaks ties."""
    start = time.perf_counter()
    view = TrainingView.of(training)
    rows = AttributeDistribution().on(view)
    for nodes in torch.split(torch.arange(view.num_nodes), 1024):
        rows(nodes)
    return time.perf_counter() - start


def measure(name: str, task: str, cap: int | None, data: str | None) -> dict[str, object]:
    """The three times of one data set."""
    graph = load_dataset(name, data)
    training = training_data(graph, make_split(graph, task, 0)).graph
    to_positives(training, task, cap, None)  # the first fit of a process pays for imports
    with tempfile.TemporaryDirectory() as folder:
        store = RelationStore(Path(folder))
        none, expected = to_positives(training, task, cap, None)
        cold, first = to_positives(training, task, cap, store)
        warm, second = to_positives(training, task, cap, store)
        assert first == second == expected, "the store changed the positives"
        entries = store.listing()
    capped = {} if cap is None else {"cap": cap}
    rows = {"tie_break_s": round(tie_break_seconds(training), 3)} if cap is None else {}
    return {
        "dataset": name,
        "task": task,
        **capped,
        "without_store_s": round(none, 3),
        "cold_s": round(cold, 3),
        "warm_s": round(warm, 3),
        "ratio": round(cold / warm, 2),
        **rows,
        "files": len(entries),
        "megabytes": round(sum(entry.bytes for entry in entries) / 2**20, 2),
    }


def main() -> None:
    """Measure each data set and print one JSON object for it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--datasets", default="cora,citeseer")
    parser.add_argument("--task", default="nodes")
    parser.add_argument("--cap", type=int)
    parser.add_argument("--data", default=os.environ.get("XTCL_DATA"))
    chosen = parser.parse_args()
    for name in chosen.datasets.split(","):
        print(json.dumps(measure(name, chosen.task, chosen.cap, chosen.data)), flush=True)


if __name__ == "__main__":
    main()
