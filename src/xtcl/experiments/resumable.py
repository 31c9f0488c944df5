"""A method on several splits, kept in a file split by split, so that a killed run goes on."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from xtcl.baselines.method import Method
from xtcl.errors import UsageError
from xtcl.experiments.evaluate import Evaluation, make_split, score_method
from xtcl.files import atomic_path
from xtcl.graph.graph import Graph
from xtcl.progress import Progress

OnSplit = Callable[[int, float, float], None]
"""Told the seed, the figure in percent and the seconds of a split that is done."""


def evaluate_into(
    path: Path,
    graph: Graph,
    task: str,
    method: Method,
    *,
    splits: int,
    seed: int = 0,
    device: torch.device,
    conditions: Mapping[str, Any],
    on_split: OnSplit = lambda seed, figure, seconds: None,
) -> None:
    """Fit and score `method` on those splits from `seed` on that `path` does not hold yet.

    The file holds what `xtcl evaluate --json` prints, and the `conditions` of the runs as plain
    values. It is whole after every split. A file of other conditions is refused, because its
    figures are not of one kind with new ones.
    """
    plain = json.loads(json.dumps(dict(conditions)))
    names = {"dataset": graph.name, "task": task, "method": method.name}
    done = _finished(path, names | plain)
    for number in range(seed, seed + splits):
        if number in done:
            continue
        figure, seconds = score_method(
            graph,
            make_split(graph, task, number),
            method,
            seed=number,
            device=device,
            progress=Progress(),
        )
        done[number] = (round(100 * figure, 4), round(seconds, 3))
        evaluation = Evaluation.of(graph.name, task, method.name, done)
        with atomic_path(path) as temporary:
            temporary.write_text(json.dumps(evaluation.to_json() | plain, indent=1) + "\n")
        on_split(number, *done[number])


def _finished(path: Path, expected: dict[str, Any]) -> dict[int, tuple[float, float]]:
    """Figure and seconds by seed, as the file has them."""
    if not path.exists():
        return {}
    record = json.loads(path.read_text())
    for name, value in expected.items():
        if record.get(name) != value:
            raise UsageError(
                f"The splits in {path} were run with another '{name}': {record.get(name)} there, "
                f"{value} now. Move the file away to run them again, or use another folder."
            )
    figures = zip(record["runs"], record["seconds"], strict=True)
    return dict(zip(record["seeds"], figures, strict=True))
