"""How to choose the penalty of the head: test accuracy under several rules, on exploration splits.

    PYTHONPATH=src python -m xtcl.lab.scripts.penalty [--datasets cora,...] [--splits 5]
        [--device auto] [--data DIR] [--out results/penalty]

For the embedding of xtcl-gcn and for smoothed attributes without training, on splits from seed
1000. Writes the record D of penalty.jsonl once all splits of a data set are done, with the accuracy
of every split by rows and rule, and tables.md. Most rules see held-out training labels, which the
label relations of the embedding have seen as well; "hidden from the whole fit" sees a fifth of the
training labels that a fit of its own, from relations to head, has not. "oracle" is the best of the
values of C by the test labels themselves, which no rule can know.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from xtcl.baselines.propagation import (
    ONCE,
    PAGERANK,
    RAW,
    TWICE,
    concatenate_columns,
    smoothed_attributes,
)
from xtcl.config import FIXED_RULES
from xtcl.device import pick_device
from xtcl.errors import XTCLError
from xtcl.files import atomic_path
from xtcl.graph.datasets.load import load_dataset
from xtcl.graph.graph import Graph
from xtcl.graph.splits import NodeSplit
from xtcl.lab.experiments.comparison import TABLE_DATASETS
from xtcl.lab.experiments.records import RecordFile
from xtcl.lab.scripts.study import FIRST_EXPLORATION_SEED, current_conditions, run_options
from xtcl.model_selection.evaluation import make_split
from xtcl.model_selection.tuning import validation_splits
from xtcl.report.charts import table
from xtcl.tasks import make_task
from xtcl.tasks.fit import fit_task
from xtcl.tasks.fit_options import FitOptions
from xtcl.tasks.logistic import (
    C_VALUES,
    calibrated_likelihood,
    choose_c,
    held_out_scores,
    logistic_path,
    posterior_mean,
    prepare_rows,
    stratified_folds,
)
from xtcl.tasks.training_data import TrainingData, training_data

FOLDS = 5
FIXED = (3.0, 10.0, 30.0)
Accuracies = dict[str, dict[str, list[float]]]
"""By rows and rule, one for each split."""
Measure = Callable[[Tensor, Tensor], float]


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure data set by data set, then draw what is there."""
    parser = run_options(__doc__, tasks=("nodes",))
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("results/penalty"))
    chosen = parser.parse_args(arguments)
    device = pick_device(chosen.device)
    chosen.out.mkdir(parents=True, exist_ok=True)
    file = RecordFile(chosen.out / "penalty.jsonl")
    for dataset in chosen.datasets:
        graph = load_dataset(dataset, chosen.data)
        accuracies: Accuracies = {}
        for seed in range(FIRST_EXPLORATION_SEED, FIRST_EXPLORATION_SEED + chosen.splits):
            for rows, by_rule in measure(graph, seed, device).items():
                for rule, accuracy in by_rule.items():
                    accuracies.setdefault(rows, {}).setdefault(rule, []).append(accuracy)
            print(f"{dataset} split {seed} done", file=sys.stderr, flush=True)
        record = {
            "seeds": list(range(FIRST_EXPLORATION_SEED, FIRST_EXPLORATION_SEED + chosen.splits)),
            "accuracy": accuracies,
            "config": asdict(make_task("nodes").named_recipe(FIXED_RULES, "gcn")),
            **current_conditions(device),
        }
        file.append(dataset, record)
    file.fold()
    with atomic_path(chosen.out / "tables.md") as temporary:
        temporary.write_text(penalty_page(chosen.out))


def measure(graph: Graph, seed: int, device: torch.device) -> dict[str, dict[str, float]]:
    """Test accuracy in percent by rows and rule, on one split."""
    split = make_split(graph, "nodes", seed)
    side = training_data(graph, split)
    options = FitOptions(seed=seed, device=device)
    kinds = kinds_of_rows(side, options)
    hidden_c = c_by_hiding(side, seed, options)
    known, labels = side.labelled, side.labels[side.labelled]
    assert graph.labels is not None  # noqa: S101 - a node split has seen to it
    truth = graph.labels[split.test]
    found = {}
    for name, rows in kinds.items():
        chosen = c_by_rule(rows[known], labels, seed, device)
        chosen |= {f"C = {c:g}": c for c in FIXED}
        chosen["hidden from the whole fit"] = hidden_c[name]
        wanted = sorted({*chosen.values(), *C_VALUES})
        heads = logistic_path(rows[known], labels, Cs=wanted, device=device)
        right = {head.C_: (head.predict(rows[split.test]) == truth).mean() for head in heads}
        accuracy = {rule: right[c] for rule, c in chosen.items()}
        accuracy["oracle"] = max(right[c] for c in C_VALUES)
        found[name] = {rule: round(100 * float(share), 3) for rule, share in accuracy.items()}
    return found


def kinds_of_rows(side: TrainingData, options: FitOptions) -> dict[str, np.ndarray]:
    """Embeddings with and without training, of all nodes."""
    smoothed = smoothed_attributes(side.graph, options.device)
    return {
        "xtcl-gcn": _embedding(side, options),
        "hops 0, 1, 2": concatenate_columns(smoothed, (RAW, ONCE, TWICE)).cpu().numpy(),
        "pagerank": smoothed[PAGERANK].cpu().numpy(),
    }


def _embedding(side: TrainingData, options: FitOptions) -> np.ndarray:
    task = make_task("nodes")
    fitted = fit_task(side, task, task.named_recipe(FIXED_RULES, "gcn"), options).fitted
    return np.asarray(fitted.embedding.cpu().numpy())


def c_by_hiding(side: TrainingData, seed: int, options: FitOptions) -> dict[str, float]:
    """For each kind of rows the posterior mean by labels that a whole fit has not seen."""
    (split,) = validation_splits(side, "nodes", 1, seed)
    assert isinstance(split, NodeSplit)  # noqa: S101 - nodes are asked for
    seen = training_data(side.graph, split)
    hidden = torch.from_numpy(side.labels[split.test])
    found = {}
    for name, rows in kinds_of_rows(seen, options).items():
        heads = logistic_path(rows[split.train], side.labels[split.train], device=options.device)
        chances = (head.predict_proba(rows[split.test], side.graph.num_classes) for head in heads)
        likelihood = [
            calibrated_likelihood(torch.from_numpy(each).clamp_min(1e-12).log(), hidden)
            for each in chances
        ]
        found[name] = posterior_mean(C_VALUES, likelihood, len(hidden))
    return found


def c_by_rule(
    rows: np.ndarray, labels: np.ndarray, seed: int, device: torch.device
) -> dict[str, float]:
    """The C that each rule takes."""
    problem = prepare_rows(rows, labels, True, device)
    turned, codes, classes = problem.rotated.coordinates, problem.codes, len(problem.classes)
    fold_of = torch.from_numpy(stratified_folds(codes.cpu().numpy(), FOLDS, seed)).to(codes)
    known = codes[fold_of >= 0]
    everything = [
        scores for scores, _ in held_out_scores(turned, codes, classes, C_VALUES, fold_of)
    ]

    def best(measured_by: Measure) -> float:
        return C_VALUES[int(np.argmax([measured_by(scores, known) for scores in everything]))]

    accuracy, likelihood = best(held_out_accuracy), best(plain_likelihood)
    return {
        "accuracy": accuracy,
        "likelihood": likelihood,
        "between the two": float(np.sqrt(accuracy * likelihood)),
        "calibrated likelihood": best(calibrated_likelihood),
        "its posterior mean": choose_c(turned, codes, classes, C_VALUES, FOLDS, seed)[0],
    }


def held_out_accuracy(scores: Tensor, codes: Tensor) -> float:
    """Share of rows with the right class."""
    return float((scores.argmax(dim=1) == codes).double().mean())


def plain_likelihood(scores: Tensor, codes: Tensor) -> float:
    """Mean log-likelihood, as the scores are."""
    return float(scores.log_softmax(dim=1).gather(1, codes[:, None]).mean())


def penalty_page(folder: Path) -> str:
    """The tables of all data sets that are there."""
    parts = [
        "# Rules for the penalty\n\nMean test accuracy in percent on exploration splits, from seed "
        "1000. The package takes the posterior mean.\nDrawn by `xtcl.lab.scripts.penalty`."
    ]
    records = RecordFile(folder / "penalty.jsonl").read()
    for dataset in TABLE_DATASETS:
        if dataset not in records:
            continue
        record = records[dataset]
        kinds = record["accuracy"]
        rules = next(iter(kinds.values()))
        body = [[rule, *(f"{np.mean(kinds[kind][rule]):.2f}" for kind in kinds)] for rule in rules]
        parts.append(
            f"## {dataset}, {len(record['seeds'])} splits\n\n" + table(["rule", *kinds], body)
        )
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    try:
        main()
    except XTCLError as error:
        sys.exit(str(error))
