"""Every method on every data set and task, each with its splits from a seed, 0 by default.

    PYTHONPATH=src python experiments/accuracy.py [--datasets cora,...] [--tasks nodes,links]
        [--methods xtcl-gcn,...] [--splits N] [--seed 0] [--device auto] [--data DIR]
        [--out results/accuracy]

Writes D-T-M.json for data set, task and method: what `xtcl evaluate D --task T --method M --json`
prints, with the recipe, the versions and the hardware. Finished splits are kept and never run
again, so a killed run goes on when it is started again. Splits of another recipe, other versions or
other hardware are refused; other changes of the code are not seen: use a fresh folder after them.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import torch
from kept import tell
from options import names, run_options
from protocol import METHODS, SPLITS

from xtcl.baselines.method import Method
from xtcl.baselines.registry import make_method
from xtcl.baselines.xtcl import XTCLMethod
from xtcl.device import pick_device
from xtcl.errors import UsageError, XTCLError
from xtcl.experiments.provenance import provenance
from xtcl.experiments.resumable import evaluate_into
from xtcl.graph.datasets import load_dataset
from xtcl.graph.graph import Graph
from xtcl.tasks.registry import make_task


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is missing; 1 if anything could not be run."""
    parser = run_options(__doc__)
    parser.add_argument("--methods", type=names(METHODS), default=METHODS)
    parser.add_argument("--splits", type=int, help="for all data sets; the protocol's by default")
    parser.add_argument("--seed", type=int, default=0, help="of the first split")
    parser.add_argument("--out", type=Path, default=Path("results/accuracy"))
    chosen = parser.parse_args(arguments)
    device = pick_device(chosen.device)
    chosen.out.mkdir(parents=True, exist_ok=True)
    failures = 0
    for dataset in chosen.datasets:
        graph = load_dataset(dataset, chosen.data)
        for task in chosen.tasks:
            for name in chosen.methods:
                splits = chosen.splits or SPLITS[dataset]
                try:
                    run(chosen.out, graph, task, make_method(name), splits, chosen.seed, device)
                except UsageError as refused:  # the other cells can still be filled
                    print(refused, file=sys.stderr)
                    failures += 1
    return int(failures > 0)


def run(
    folder: Path,
    graph: Graph,
    task: str,
    method: Method,
    splits: int,
    seed: int,
    device: torch.device,
) -> None:
    """Bring one file up to `splits` splits from `seed`."""
    cell = f"{graph.name}-{task}-{method.name}"
    evaluate_into(
        folder / f"{cell}.json",
        graph,
        task,
        method,
        splits=splits,
        seed=seed,
        device=device,
        conditions={"config": config(method, task), **provenance(device)},
        on_split=partial(tell, cell),
    )


def config(method: Method, task: str) -> dict[str, Any]:
    """The recipe of our own methods; what others do is written in their code."""
    if not isinstance(method, XTCLMethod):
        return {}
    return asdict(make_task(task).recipe(method.encoder))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except XTCLError as error:
        sys.exit(str(error))
