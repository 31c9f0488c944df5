"""How often positives are right on the test side: looked at afterwards, used for nothing.

    PYTHONPATH=src python experiments/purity.py [--datasets cora,...] [--tasks nodes,links]
        [--device auto] [--data DIR] [--out results/accuracy/purity.json]

Nodes: the share of the positives of test nodes that have their class. Links: the share of candidate
positives that are test links. Percent, on the first three splits from seed 0; the sampler and its
positives come from the training side alone, as in a fit.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from options import run_options

from xtcl.device import pick_device
from xtcl.errors import XTCLError
from xtcl.experiments.evaluate import make_split
from xtcl.experiments.provenance import provenance
from xtcl.files import atomic_path
from xtcl.graph.datasets import load_dataset
from xtcl.graph.graph import Graph
from xtcl.graph.link_split import LinkSplit
from xtcl.graph.node_split import NodeSplit
from xtcl.graph.pairs import is_among, pair_keys
from xtcl.sampling.positives import NOBODY
from xtcl.tasks.pipeline import FitOptions, find_positives
from xtcl.tasks.registry import make_task
from xtcl.tasks.training_side import training_side

SEEDS = (0, 1, 2)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and write each figure as soon as it is there; figures of other cells stay."""
    parser = run_options(__doc__)
    parser.add_argument("--out", type=Path, default=Path("results/accuracy/purity.json"))
    chosen = parser.parse_args(arguments)
    device = pick_device(chosen.device)
    chosen.out.parent.mkdir(parents=True, exist_ok=True)
    record: dict[str, Any] = json.loads(chosen.out.read_text()) if chosen.out.exists() else {}
    for dataset in chosen.datasets:
        graph = load_dataset(dataset, chosen.data)
        for task in chosen.tasks:
            shares = [round(100 * measure(graph, task, seed, device), 2) for seed in SEEDS]
            cell = {"mean": round(float(np.mean(shares)), 2), "runs": shares, "seeds": list(SEEDS)}
            record.setdefault(task, {})[dataset] = cell | provenance(device)
            with atomic_path(chosen.out) as temporary:
                temporary.write_text(json.dumps(record, indent=1) + "\n")
            print(f"{dataset} {task}: {shares}", file=sys.stderr, flush=True)


def measure(graph: Graph, task: str, seed: int, device: torch.device) -> float:
    """The share of right positives on one split."""
    split = make_split(graph, task, seed)
    chosen = make_task(task)
    options = FitOptions(seed=seed, device=device)
    training = training_side(graph, split).graph
    found = find_positives(training, chosen, chosen.recipe("gcn"), options)
    if isinstance(split, LinkSplit):
        return share_of_test_links(found.positives, split)
    return share_of_same_class(found.positives, split, graph)


def share_of_same_class(positives: np.ndarray, split: NodeSplit, graph: Graph) -> float:
    """Among the positives [V, B] of test nodes."""
    assert graph.labels is not None  # noqa: S101 - a node split has seen to it
    table = positives[split.test]
    same = graph.labels[table] == graph.labels[split.test][:, None]
    return float(same[table != NOBODY].mean())


def share_of_test_links(positives: np.ndarray, split: LinkSplit) -> float:
    """Among the positives [V, B] of all nodes."""
    node, place = np.nonzero(positives != NOBODY)
    pairs = np.sort(np.stack([node, positives[node, place]]), axis=0)
    tested = pair_keys(split.test, split.num_nodes)
    return float(is_among(pair_keys(pairs, split.num_nodes), tested).mean())


if __name__ == "__main__":
    try:
        main()
    except XTCLError as error:
        sys.exit(str(error))
