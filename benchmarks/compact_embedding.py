"""Logistic regression on the compact embedding and on the full one, on the same splits.

    python benchmarks/compact_embedding.py --datasets cora,citeseer --splits 3 [--data DIR]
        [--out results/performance/compact-embedding.txt]

One fit for each split, from seed 0. "full" and "compact" are the test accuracy of the logistic
regression of `xtcl.tasks.logistic`, fitted on the training nodes alone, with C by cross-validation
on either; "same C" is the compact one with the C of the full one. "xtcl" is the model itself, whose
head is the one of "full", where it is worth it fitted again with its own predictions. Adds lines to
the file, so that data sets can be measured one by one.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from xtcl import XTCL, load_dataset, node_split
from xtcl.tasks.logistic import C_VALUES, LogisticHead, fit_logistic

COLUMNS = ("data set", "seed", "columns", "map (s)", "xtcl", "full", "compact", "same C")
FORM = "{:<10} {:>4} {:>14} {:>8} {:>7} {:>7} {:>8} {:>8}"


def measure(dataset: str, seed: int, data: str | None) -> tuple[str, list[float]]:
    """A line for a split; points of compact minus full, with a C of its own and with the same."""
    graph = load_dataset(dataset, data)
    split = node_split(graph, train=0.1, seed=seed)
    model = XTCL(random_state=seed).fit(graph, split)
    start = time.perf_counter()
    full, compact = model.embedding_, model.compact_embedding_
    seconds = time.perf_counter() - start
    labels = np.asarray(graph.labels)

    def head(rows: np.ndarray, Cs: Sequence[float] = C_VALUES) -> LogisticHead:
        return fit_logistic(rows[split.train], labels[split.train], Cs=Cs, seed=seed)

    def accuracy(head: LogisticHead, rows: np.ndarray) -> float:
        return 100 * float((head.predict(rows[split.test]) == labels[split.test]).mean())

    of_full = head(full)
    base = accuracy(of_full, full)
    others = [accuracy(head(compact, Cs), compact) for Cs in (C_VALUES, [of_full.C_])]
    line = FORM.format(
        dataset,
        seed,
        f"{full.shape[1]} to {compact.shape[1]}",
        f"{seconds:.1f}",
        *(f"{value:.2f}" for value in (100 * model.score(split), base, *others)),
    )
    return line, [other - base for other in others]


def main() -> None:
    """Measure, and add what was found to the file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--datasets", default="cora")
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--data")
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()

    def write(line: str) -> None:
        print(line, flush=True)
        if chosen.out is not None:
            with chosen.out.open("a", encoding="utf-8") as file:
                file.write(line + "\n")

    write(FORM.format(*COLUMNS) + f"   torch threads: {torch.get_num_threads()}")
    for dataset in chosen.datasets.split(","):
        differences = []
        for seed in range(chosen.splits):
            line, found = measure(dataset, seed, chosen.data)
            write(line)
            differences.append(found)
        compact, same = np.mean(differences, axis=0)
        write(f"{dataset}, mean: compact {compact:+.2f} against full, {same:+.2f} with the same C")


if __name__ == "__main__":
    main()
