"""What tuning adds to the default recipe: on every split a search of its own, then the score.

    PYTHONPATH=src python -m xtcl.lab.scripts.tuned [--datasets cora,...] [--tasks nodes,links]
        [--encoder gcn] [--trials 20] [--rounds 5] [--splits N] [--device auto] [--data DIR]
        [--out results/tuned]

On every split from seed 0 it does what `xtcl tune` and then `xtcl evaluate --config` do: the search
sees the training data of that split and no more. Writes tuned.jsonl with a record D-T-tuned-E for
data set, task and encoder, as `xtcl evaluate --json` prints it, with the search's settings;
recipes.jsonl with the recipe found on every split, its hidden score and that of the default; and
searches/D-T-E-SEED.db with its trials. Finished splits and trials are kept and never run again;
after a kill the seconds of a split are those of its last part.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar

import torch

from xtcl.baselines.method import Method
from xtcl.device import pick_device
from xtcl.errors import XTCLError
from xtcl.graph.datasets.load import load_dataset
from xtcl.graph.graph import Graph
from xtcl.lab.experiments.provenance import evaluate_into
from xtcl.lab.experiments.records import RecordFile
from xtcl.lab.scripts.study import SPLITS, add_split, current_conditions, print_split, run_options
from xtcl.model_selection.tuning import Tuned, tune
from xtcl.nn import ENCODERS
from xtcl.progress import Progress
from xtcl.tasks import TASKS, make_task
from xtcl.tasks.fit import fit_task
from xtcl.tasks.fit_options import FitOptions
from xtcl.tasks.results import Predictions
from xtcl.tasks.training_data import TrainingData


class TunedMethod(Method):
    """XTCL with the recipe that a search inside the training data finds."""

    title: ClassVar[str] = "XTCL, tuned"
    tasks: ClassVar[frozenset[str]] = frozenset(TASKS)

    def __init__(self, encoder: str, trials: int, rounds: int, searches: Path) -> None:
        self.encoder = encoder
        self.trials = trials
        self.rounds = rounds
        self.searches = searches
        self.found: Tuned | None = None

    def fit(
        self,
        side: TrainingData,
        task: str,
        *,
        seed: int,
        device: torch.device,
        progress: Progress,
    ) -> Predictions:
        """Search, then fit with what was found."""
        self.found = tune(
            side,
            task,
            self.encoder,
            trials=self.trials,
            cv_rounds=self.rounds,
            seed=seed,
            device=device,
            progress=progress,
            store=self.searches / f"{side.graph.name}-{task}-{self.encoder}-{seed}.db",
        )
        options = FitOptions(encoder=self.encoder, seed=seed, device=device, progress=progress)
        return fit_task(side, make_task(task), self.found.recipe, options).answer


def method_of(encoder: str, trials: int, rounds: int, searches: Path) -> TunedMethod:
    """The search as a method of its encoder's name."""

    class Named(TunedMethod):
        name: ClassVar[str] = f"tuned-{encoder}"

    return Named(encoder, trials, rounds, searches)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is missing."""
    parser = run_options(__doc__)
    parser.add_argument("--encoder", choices=ENCODERS, default="gcn")
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--splits", type=int, help="for all data sets; the protocol's by default")
    parser.add_argument("--out", type=Path, default=Path("results/tuned"))
    chosen = parser.parse_args(arguments)
    searches = chosen.out / "searches"
    searches.mkdir(parents=True, exist_ok=True)
    method = method_of(chosen.encoder, chosen.trials, chosen.rounds, searches)
    for dataset in chosen.datasets:
        graph = load_dataset(dataset, chosen.data)
        for task in chosen.tasks:
            splits = chosen.splits or SPLITS[dataset]
            run(chosen.out, graph, task, method, splits, pick_device(chosen.device))
    return 0


def run(
    folder: Path, graph: Graph, task: str, method: TunedMethod, splits: int, device: torch.device
) -> None:
    """Bring one file up to `splits` splits."""
    cell = f"{graph.name}-{task}-{method.name}"
    file, recipes = RecordFile(folder / "tuned.jsonl"), RecordFile(folder / "recipes.jsonl")
    search = {
        "trials": method.trials,
        "rounds": method.rounds,
        "default": asdict(make_task(task).recipe(method.encoder)),
    }

    def on_split(seed: int, figure: float, seconds: float) -> None:
        assert method.found is not None  # noqa: S101 - the split has just been fitted
        add_split(recipes, cell, seed, describe_search(method.found))
        print_split(cell, seed, figure, seconds)

    evaluate_into(
        file,
        cell,
        graph,
        task,
        method,
        splits=splits,
        device=device,
        conditions={"search": search, **current_conditions(device)},
        on_split=on_split,
    )


def describe_search(found: Tuned) -> dict[str, Any]:
    """What a search found, as plain values."""
    return {
        "hidden score": found.score,
        "hidden score of the default": found.default_score,
        "knobs": dict(found.best.values),  # the key of stored records
        "recipe": asdict(found.recipe),
    }


if __name__ == "__main__":
    try:
        sys.exit(main())
    except XTCLError as error:
        sys.exit(str(error))
