"""Newton-CG against L-BFGS of PyTorch and of scikit-learn, on the fits of a node head.

    OMP_NUM_THREADS=1 python benchmarks/logistic_solvers.py [--datasets cora,...] [--splits 3]
        [--repeats 2] [--tolerance 1e-6] [--device cpu] [--embeddings FOLDER] [--data DIR]

Every solver takes the place of `solve_path`. So all get the same embedding, labels and folds, and
make three fits: the cross-validation over C (5 folds), the first fit at the C that Newton-CG chose,
and the second fit with pseudo-labels (self-training), from Newton-CG's first head. L-BFGS gets rows
without the rotation to near-principal axes, which only Newton-CG needs, but in their span where
they are few. It starts at the solution for the last C, too, and stops when no element of the
gradient of the mean loss is above --tolerance (scikit-learn's default is 1e-4).

Embeddings come from fits in top-k mode (`cap=32`) with two epochs for each encoder: they have the
width of a full fit and nearly its accuracy. They are kept in FOLDER. Seconds are CPU seconds of one
thread on split 0, the least of the repeats; with `--device cuda` seconds of the clock, and only
scikit-learn still solves on the CPU. "C" is what the solver's own cross-validation chooses,
split by split; "test" the accuracy after the second fit, a mean over the splits; "same class" the
share of all nodes with Newton-CG's class; "J" how far the penalised loss of the second fit is above
Newton-CG's.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, cast
from unittest.mock import patch

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from torch import Tensor
from torch.nn.functional import cross_entropy

from xtcl import XTCL
from xtcl.graph.datasets.load import load_dataset
from xtcl.graph.graph import Graph
from xtcl.graph.splits import NodeSplit
from xtcl.model_selection.evaluation import make_split
from xtcl.report.charts import table
from xtcl.tasks import newton_cg
from xtcl.tasks.logistic import LogisticHead, fit_logistic, refit_logistic, take_rows
from xtcl.tasks.newton_cg import MAX_SPAN_ROWS, HeadWeights, RotatedRows
from xtcl.tasks.self_training import self_train

DATASETS = "cora,citeseer,pubmed,photo,computers"
FITS = ("cross-validation", "first fit", "second fit")
MAX_ITERATIONS = 5000
Fit = Callable[[Tensor, Tensor, float, float, HeadWeights], HeadWeights]
"""Rows, codes, C, tolerance of the gradient and a start, all of one problem."""


def torch_lbfgs(dtype: torch.dtype) -> Fit:
    """`torch.optim.LBFGS` in this precision."""

    def fit(
        rows: Tensor, codes: Tensor, C: float, tolerance: float, start: HeadWeights
    ) -> HeadWeights:
        x = rows.to(dtype)
        coef, intercept = (part[0].to(dtype).requires_grad_() for part in start)
        optimizer = torch.optim.LBFGS(
            [coef, intercept],
            max_iter=MAX_ITERATIONS,
            tolerance_grad=tolerance,
            tolerance_change=1e-12,
            history_size=10,
            line_search_fn="strong_wolfe",
        )

        def closure() -> Tensor:
            optimizer.zero_grad()
            penalty = coef.square().sum() / (2 * C * len(x))
            loss: Tensor = cross_entropy(x @ coef.T + intercept, codes) + penalty
            loss.backward()  # type: ignore[no-untyped-call]
            return loss

        optimizer.step(closure)  # type: ignore[no-untyped-call]
        return HeadWeights(coef.detach().double()[None], intercept.detach().double()[None])

    return fit


def sklearn_lbfgs(
    rows: Tensor, codes: Tensor, C: float, tolerance: float, start: HeadWeights
) -> HeadWeights:
    """`LogisticRegression(solver="lbfgs")`; for three or more classes."""
    model = LogisticRegression(C=C, tol=tolerance, max_iter=MAX_ITERATIONS, warm_start=True)
    model.coef_, model.intercept_ = (part[0].cpu().numpy() for part in start)
    model.fit(rows.cpu().numpy(), codes.cpu().numpy())
    found = (torch.from_numpy(part)[None] for part in (model.coef_, model.intercept_))
    return HeadWeights(*(part.to(rows.device) for part in found))


SOLVERS: dict[str, Fit | None] = {
    "Newton-CG": None,
    "torch float64": torch_lbfgs(torch.float64),
    "torch float32": torch_lbfgs(torch.float32),
    "scikit-learn": sklearn_lbfgs,
}


class NoRotation:
    """Takes the place of the rotation to near-principal axes."""

    def apply_(self, rows: Tensor) -> Tensor:
        """The rows as they are."""
        return rows

    inverse = apply_


def rows_in_span(rows: Tensor, *, overwrite: bool = False) -> RotatedRows:
    """Centred rows, as they are or, where they are few and wide, in their span."""
    centre = rows.mean(dim=0)
    centred = rows - centre
    rotation = cast(newton_cg._Rotation, NoRotation())
    if rows.shape[1] < 1.25 * len(rows) or len(rows) > MAX_SPAN_ROWS:
        return RotatedRows(centred, centre, rotation, None)
    span, others = torch.linalg.qr(centred[:-1].T)
    inside = torch.cat([others.T, -others.sum(dim=1)[None]])
    return RotatedRows(inside, centre, rotation, span)


class Problem(NamedTuple):
    """The last problem of all rows that was solved."""

    rows: Tensor
    codes: Tensor
    C: float
    weights: HeadWeights

    def objective(self) -> float:
        """J in float64."""
        coef, intercept = (part[0] for part in self.weights)
        loss = cross_entropy(self.rows @ coef.T + intercept, self.codes, reduction="sum")
        return float(loss + coef.square().sum() / (2 * self.C))


class Solver:
    """A solver that takes the place of `solve_path` and remembers its last problem."""

    def __init__(self, fit: Fit | None, tolerance: float) -> None:
        self.fit = fit
        self.tolerance = tolerance
        self.last: Problem | None = None

    def __call__(
        self,
        rows: Tensor,
        codes: Tensor,
        num_classes: int,
        Cs: Sequence[float],
        tolerance: float,
        mask: Tensor | None = None,
        start: HeadWeights | None = None,
    ) -> Iterator[HeadWeights]:
        """Fit every C, as `solve_path` does."""
        if self.fit is None:
            path = newton_cg.solve_path(rows, codes, num_classes, Cs, tolerance, mask, start)
        else:
            path = self._path(rows, codes, num_classes, Cs, mask, start)
        for C, weights in zip(Cs, path, strict=False):
            self.last = Problem(rows, codes, C, weights)
            yield weights

    def _path(
        self,
        rows: Tensor,
        codes: Tensor,
        num_classes: int,
        Cs: Sequence[float],
        mask: Tensor | None,
        start: HeadWeights | None,
    ) -> Iterator[HeadWeights]:
        assert self.fit is not None
        masks = rows.new_ones(1, len(rows), dtype=torch.bool) if mask is None else mask
        problems = [(rows[part], codes[part]) for part in masks]
        if start is None:
            start = HeadWeights(
                rows.new_zeros(len(masks), num_classes, rows.shape[1]),
                torch.stack([torch.bincount(y, minlength=num_classes).log() for _, y in problems]),
            )
        found = [
            HeadWeights(*(part[p : p + 1].double() for part in start)) for p in range(len(masks))
        ]
        for C in Cs:
            found = [
                self.fit(x, y, C, self.tolerance, HeadWeights(*(part.clone() for part in weights)))
                for (x, y), weights in zip(problems, found, strict=True)
            ]
            yield HeadWeights(*(torch.cat(parts) for parts in zip(*found, strict=True)))


class Result(NamedTuple):
    """What one solver did on one split."""

    seconds: list[float]
    C: float
    accuracy: float
    classes: np.ndarray
    objective: float
    size: str


def measure(
    graph: Graph, split: NodeSplit, z: Tensor, repeats: int, tolerance: float
) -> dict[str, Result]:
    """All solvers on one split; Newton-CG first, whose C and head the others get."""
    assert graph.labels is not None
    labels = graph.labels[split.train]
    rows = take_rows(z, split.train)
    results: dict[str, Result] = {}
    newton: list[LogisticHead] = []
    for name, fit in SOLVERS.items():
        solver = Solver(fit, tolerance)
        rotate = newton_cg.rotate_rows if fit is None else rows_in_span
        seconds: list[list[float]] = []
        with (
            patch("xtcl.tasks.logistic.solve_path", solver),
            patch("xtcl.tasks.logistic.rotate_rows", rotate),
        ):
            for _ in range(repeats):
                clock = [seconds_of(z.device)]
                chosen = fit_logistic(rows, labels, seed=0, refit=False)
                clock.append(seconds_of(z.device))
                C = newton[0].C_ if newton else chosen.C_
                first = refit_logistic(replace(chosen, C_=C), rows, labels)
                clock.append(seconds_of(z.device))
                # All add the same pseudo-labels.
                teacher = newton[0] if newton else first
                second = self_train(teacher, z, split.train, labels)
                second = first if second is teacher else second  # there is no second fit
                clock.append(seconds_of(z.device))
                seconds.append(np.diff(clock).tolist())
        newton = newton or [first]
        classes = second.predict(z.cpu().numpy())
        assert solver.last is not None
        size = f"{len(solver.last.rows):,} x {z.shape[1]:,}, {len(second.classes_)} classes"
        right = classes[split.test] == graph.labels[split.test]
        results[name] = Result(
            np.min(seconds, axis=0).tolist(),
            chosen.C_,
            100 * float(right.mean()),
            classes,
            solver.last.objective(),
            size,
        )
    return results


def seconds_of(device: torch.device) -> float:
    """CPU seconds of this process; on a GPU those of the clock, with its work done."""
    if device.type == "cpu":
        return time.process_time()
    torch.cuda.synchronize(device)
    return time.perf_counter()


def embedding(graph: Graph, split: NodeSplit, seed: int, path: Path, device: str) -> Tensor:
    """The embedding of all nodes by a short fit, from `path` where it is there."""
    if not path.exists():
        model = XTCL(cap=32, epochs=2, random_state=seed, device=device).fit(graph, split)
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, np.asarray(model.embedding_, dtype=np.float32))
    return torch.from_numpy(np.load(path)).to(device)


def rows_of(name: str, splits: list[dict[str, Result]]) -> list[list[str]]:
    """A line of the table for each solver."""
    lines = []
    for solver in SOLVERS:
        found = [split[solver] for split in splits]
        reference = [split["Newton-CG"] for split in splits]
        pairs = list(zip(found, reference, strict=True))
        same = np.mean([(a.classes == b.classes).mean() for a, b in pairs])
        gap = np.mean([a.objective / b.objective - 1 for a, b in pairs])
        seconds = np.array(found[0].seconds)
        lines.append(
            [
                f"{name} ({found[0].size})" if solver == "Newton-CG" else "",
                solver,
                *(f"{value:.2f}" for value in seconds),
                f"{seconds.sum():.2f}",
                "/".join(f"{each.C:.3g}" for each in found),
                f"{np.mean([each.accuracy for each in found]):.2f}",
                f"{100 * same:.2f}",
                f"{gap:.0e}" if solver != "Newton-CG" else "",
            ]
        )
    return lines


def main() -> None:
    """Measure data set by data set, then print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--datasets", default=DATASETS)
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--tolerance", type=float, default=1e-6)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--embeddings", type=Path, default=Path("build/embeddings"))
    parser.add_argument("--data", default=os.environ.get("XTCL_DATA"))
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    head = ["second fit", "solver", *(f"{fit} s" for fit in FITS), "all s", "C", "test %"]
    print(table([*head, "same class %", "J"], []), flush=True)
    for name in chosen.datasets.split(","):
        graph = load_dataset(name, chosen.data)
        splits = []
        for seed in range(chosen.splits):
            split = make_split(graph, "nodes", seed)
            assert isinstance(split, NodeSplit)
            path = chosen.embeddings / f"{name}-{seed}.npy"
            z = embedding(graph, split, seed, path, chosen.device)
            repeats = chosen.repeats if seed == 0 else 1
            splits.append(measure(graph, split, z, repeats, chosen.tolerance))
        for cells in rows_of(name, splits):
            print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
