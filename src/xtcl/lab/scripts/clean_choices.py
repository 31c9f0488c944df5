"""The default recipe, its three last choices made by labels that were hidden from the whole fit.

    PYTHONPATH=src python -m xtcl.lab.scripts.clean_choices [--datasets cora,...] [--encoder gcn]
        [--splits N] [--device auto] [--data DIR] [--out results/clean-choices]

The package chooses the penalty of the head, the weight of the learned part (`downweight`) and
whether to fit the head a second time by labels held out of the head alone; the label relations have
seen them. Here every fifth of the training labels is hidden once from relations, sampler,
training and head, and the five fits choose together:

    penalty      the posterior mean of C, as in the package
    downweight   the likelier of both embeddings
    second fit   where the hidden labels are mostly right

The last fit then has all training labels and nothing left to choose: six fits instead of one. On
the reported splits from seed 0. Writes clean-choices.jsonl with a record D-clean-E, as `xtcl
evaluate --json` prints it, and choices.jsonl with what was chosen.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from xtcl.baselines.method import Method
from xtcl.config import FIXED_RULES
from xtcl.device import pick_device
from xtcl.errors import XTCLError
from xtcl.graph.datasets.load import load_dataset
from xtcl.graph.splits import NodeSplit
from xtcl.lab.experiments.provenance import evaluate_into
from xtcl.lab.experiments.records import RecordFile
from xtcl.lab.scripts.study import SPLITS, add_split, current_conditions, print_split, run_options
from xtcl.model_selection.tuning import VALIDATION_FOLDS, validation_splits
from xtcl.nn import ENCODERS
from xtcl.progress import Progress
from xtcl.tasks import make_task
from xtcl.tasks.fit import train_ensemble, with_downweighted_encoder
from xtcl.tasks.fit_options import FitOptions
from xtcl.tasks.logistic import (
    C_VALUES,
    calibrated_likelihood,
    logistic_path,
    posterior_mean,
    take_rows,
)
from xtcl.tasks.results import NodePredictions, Predictions
from xtcl.tasks.sampled_positives import sample_positives
from xtcl.tasks.self_training import MIN_CV_ACCURACY, self_train
from xtcl.tasks.training_data import TrainingData, training_data

TASK = make_task("nodes")


class ScoredC(NamedTuple):
    """The C that hidden labels choose for one kind of embedding, and their scores."""

    C: float
    likelihood: float
    accuracy: float

    def as_record(self) -> dict[str, float]:
        """With the keys of the stored records, where C is called strength."""
        return {"strength": self.C, "likelihood": self.likelihood, "accuracy": self.accuracy}


class CleanChoices(Method):
    """XTCL for nodes that chooses nothing by labels which any part of it has seen."""

    title: ClassVar[str] = "XTCL, choices by hidden labels"
    tasks: ClassVar[frozenset[str]] = frozenset({"nodes"})

    def __init__(self, encoder: str) -> None:
        self.encoder = encoder
        self.chosen: dict[str, Any] = {}

    def fit(
        self,
        side: TrainingData,
        task: str,
        *,
        seed: int,
        device: torch.device,
        progress: Progress,
    ) -> Predictions:
        """Six fits: five that choose, and one."""
        options = FitOptions(encoder=self.encoder, seed=seed, device=device, progress=progress)
        scores: list[list[Tensor]] = [[], []]  # of hidden labels, by all that was learned or less
        hidden = []
        for split in validation_splits(side, "nodes", VALIDATION_FOLDS, seed):
            assert isinstance(split, NodeSplit)  # noqa: S101 - nodes are asked for
            seen = training_data(side.graph, split)
            for found, embedding in zip(scores, embeddings(seen, options), strict=True):
                found.append(hidden_scores(embedding, side, split))
            hidden.append(torch.from_numpy(side.labels[split.test]))
        scored = [score(torch.cat(found, dim=1), torch.cat(hidden)) for found in scores]
        best = int(np.argmax([each.likelihood for each in scored]))
        right = scored[best].accuracy
        self.chosen = {
            "all that was learned": scored[0].as_record(),
            "in doubt": scored[1].as_record(),
            "doubts": bool(best),
            "second fit": right >= MIN_CV_ACCURACY,
        }
        embedding = embeddings(side, options)[best]
        known, codes = side.labelled, side.labels[side.labelled]
        (head,) = logistic_path(take_rows(embedding, known), codes, Cs=[scored[best].C])
        head = self_train(replace(head, cv_accuracy_=right), embedding, known, codes, seed=seed)
        return NodePredictions(head.predict_proba(embedding, side.graph.num_classes))


def embeddings(side: TrainingData, options: FitOptions) -> tuple[Tensor, Tensor]:
    """With the learned part in full, and with it downweighted."""
    assert isinstance(options.encoder, str)  # noqa: S101 - it is one of ENCODERS
    recipe = TASK.named_recipe(FIXED_RULES, options.encoder)
    found = sample_positives(side.graph, TASK, recipe, options)
    fitted = train_ensemble(side.graph, TASK, recipe, recipe.ensembles[0], found, options)
    downweighted = with_downweighted_encoder(fitted, side.graph.num_attributes, recipe.downweight)
    return fitted.embedding, downweighted.embedding


def hidden_scores(embedding: Tensor, side: TrainingData, split: NodeSplit) -> Tensor:
    """Log-probabilities [values of C, hidden labels, classes] by heads fitted on the others."""
    rows, asked = take_rows(embedding, split.train), take_rows(embedding, split.test)
    chances = [
        head.predict_proba(asked, side.graph.num_classes)
        for head in logistic_path(rows, side.labels[split.train])
    ]
    return torch.from_numpy(np.stack(chances)).clamp_min(1e-12).log()


def score(scores: Tensor, codes: Tensor) -> ScoredC:
    """The posterior mean of C over all hidden labels."""
    likelihood = [calibrated_likelihood(each, codes) for each in scores]
    best = int(np.argmax(likelihood))
    accuracy = float((scores[best].argmax(dim=1) == codes).double().mean())
    return ScoredC(posterior_mean(C_VALUES, likelihood, len(codes)), likelihood[best], accuracy)


def method_of(encoder: str) -> CleanChoices:
    """The method of its encoder's name."""

    class Named(CleanChoices):
        name: ClassVar[str] = f"clean-{encoder}"

    return Named(encoder)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is missing."""
    parser = run_options(__doc__, tasks=("nodes",))
    parser.add_argument("--encoder", choices=ENCODERS, default="gcn")
    parser.add_argument("--splits", type=int, help="for all data sets; the protocol's by default")
    parser.add_argument("--out", type=Path, default=Path("results/clean-choices"))
    chosen = parser.parse_args(arguments)
    chosen.out.mkdir(parents=True, exist_ok=True)
    choices = RecordFile(chosen.out / "choices.jsonl")
    device = pick_device(chosen.device)
    method = method_of(chosen.encoder)
    for dataset in chosen.datasets:
        cell = f"{dataset}-{method.name}"

        def on_split(seed: int, figure: float, seconds: float, cell: str = cell) -> None:
            add_split(choices, cell, seed, method.chosen)
            print_split(cell, seed, figure, seconds)

        evaluate_into(
            RecordFile(chosen.out / "clean-choices.jsonl"),
            cell,
            load_dataset(dataset, chosen.data),
            "nodes",
            method,
            splits=chosen.splits or SPLITS[dataset],
            device=device,
            conditions={
                "config": asdict(TASK.named_recipe(FIXED_RULES, chosen.encoder)),
                **current_conditions(device),
            },
            on_split=on_split,
        )
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except XTCLError as error:
        sys.exit(str(error))
