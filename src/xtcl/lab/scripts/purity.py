"""How often positives are right on the test side, measured after the fit and used for no choice.

    PYTHONPATH=src python -m xtcl.lab.scripts.purity [--datasets cora,...] [--tasks nodes,links]
        [--device auto] [--data DIR] [--out results/accuracy/purity.jsonl]

Nodes: the share of the positives of test nodes that have their class; the share of test nodes whose
positives are right for the most part ("mostly_right"); and how accurate the fit is there and
elsewhere. Links: the share of candidate positives that are test links. Percent, on the first three
splits from seed 0; the fit is that of xtcl-gcn and sees the training data alone.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from xtcl.config import FIXED_RULES
from xtcl.device import pick_device
from xtcl.errors import XTCLError
from xtcl.graph.datasets.load import load_dataset
from xtcl.graph.graph import Graph
from xtcl.graph.pairs import pair_keys, pairs_among
from xtcl.graph.splits import LinkSplit, NodeSplit
from xtcl.lab.experiments.records import RecordFile
from xtcl.lab.scripts.study import current_conditions, run_options
from xtcl.model_selection.evaluation import make_split
from xtcl.relations.rows import NO_NODE
from xtcl.tasks import make_task
from xtcl.tasks.fit import fit_task
from xtcl.tasks.fit_options import FitOptions
from xtcl.tasks.results import NodePredictions
from xtcl.tasks.sampled_positives import sample_positives
from xtcl.tasks.training_data import training_data

SEEDS = (0, 1, 2)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and write each figure as soon as it is there; figures of other cells stay."""
    parser = run_options(__doc__)
    parser.add_argument("--out", type=Path, default=Path("results/accuracy/purity.jsonl"))
    chosen = parser.parse_args(arguments)
    device = pick_device(chosen.device)
    file = RecordFile(chosen.out)
    for dataset in chosen.datasets:
        graph = load_dataset(dataset, chosen.data)
        for task in chosen.tasks:
            measured = [measure(graph, task, seed, device) for seed in SEEDS]
            shares, *others = (
                [round(100 * each[name], 2) for each in measured] for name in measured[0]
            )
            cell = {"mean": round(float(np.mean(shares)), 2), "runs": shares, "seeds": list(SEEDS)}
            cell |= dict(zip(list(measured[0])[1:], others, strict=True))
            file.append(f"{dataset}-{task}", cell | current_conditions(device))
            file.fold()
            print(f"{dataset} {task}: {shares}", file=sys.stderr, flush=True)


def measure(graph: Graph, task: str, seed: int, device: torch.device) -> dict[str, float]:
    """The share of right positives on one split, and for nodes what follows from it."""
    split = make_split(graph, task, seed)
    chosen = make_task(task)
    recipe, options = chosen.named_recipe(FIXED_RULES, "gcn"), FitOptions(seed=seed, device=device)
    side = training_data(graph, split)
    if isinstance(split, LinkSplit):
        found = sample_positives(side.graph, chosen, recipe, options)
        return {"purity": share_of_test_links(found.positives, split)}
    fitted = fit_task(side, chosen, recipe, options)
    positives, answer = fitted.fitted.positives, fitted.answer
    assert isinstance(answer, NodePredictions)  # noqa: S101 - a node split has seen to it
    purity = share_of_same_class(positives, split, graph)
    return {"purity": purity} | accuracy_by_positives(positives, answer.probabilities, split, graph)


def share_of_same_class(positives: np.ndarray, split: NodeSplit, graph: Graph) -> float:
    """Among the positives [V, B] of test nodes."""
    same, filled = _same_class(positives, split, graph)
    return float(same[filled].mean())


def accuracy_by_positives(
    positives: np.ndarray, probabilities: np.ndarray, split: NodeSplit, graph: Graph
) -> dict[str, float]:
    """How accurate a fit is where most of a test node's positives are right, and elsewhere.

    A node without positives counts among the others; so does one with as many wrong as right.
    """
    same, filled = _same_class(positives, split, graph)
    mostly = 2 * (same & filled).sum(axis=1) > filled.sum(axis=1)
    right = (probabilities.argmax(axis=1) == graph.labels)[split.test]
    there, elsewhere = (
        float(right[part].mean()) if part.any() else math.nan for part in (mostly, ~mostly)
    )
    return {
        "mostly_right": float(mostly.mean()),
        "accuracy_there": there,
        "accuracy_elsewhere": elsewhere,
    }


def _same_class(
    positives: np.ndarray, split: NodeSplit, graph: Graph
) -> tuple[np.ndarray, np.ndarray]:
    """Whether the positives of test nodes have their class, and which places hold one."""
    assert graph.labels is not None  # noqa: S101 - a node split has seen to it
    table = positives[split.test]
    return graph.labels[table] == graph.labels[split.test][:, None], table != NO_NODE


def share_of_test_links(positives: np.ndarray, split: LinkSplit) -> float:
    """Among the positives [V, B] of all nodes."""
    node, place = np.nonzero(positives != NO_NODE)
    pairs = np.sort(np.stack([node, positives[node, place]]), axis=0)
    tested = pair_keys(split.test, split.num_nodes)
    return float(pairs_among(pair_keys(pairs, split.num_nodes), tested).mean())


if __name__ == "__main__":
    try:
        main()
    except XTCLError as error:
        sys.exit(str(error))
