"""Logistic regression on the compact embedding and on the full one, on the same splits.

    python benchmarks/compact_embedding.py --datasets cora,citeseer --splits 3 [--data DIR]
        [--out results/performance/compact-embedding.txt]

One fit for each split, from seed 0. "full" and "compact" are the test accuracy of the logistic
regression of `xtcl.tasks.logistic`, with C by cross-validation, fitted on the training nodes alone.
"xtcl" is that of the model itself, whose head is the same on the full embedding, where it is worth
it fitted again with its own predictions. Adds lines to the file, so that data sets can be measured
one by one.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import torch

from xtcl import XTCL, load_dataset, node_split
from xtcl.tasks.logistic import fit_logistic

COLUMNS = ("data set", "seed", "columns", "map (s)", "xtcl", "full", "compact", "difference")
FORM = "{:<10} {:>4} {:>14} {:>8} {:>7} {:>7} {:>8} {:>11}"


def measure(dataset: str, seed: int, data: str | None) -> tuple[str, float]:
    """A line for a split, and compact minus full in points."""
    graph = load_dataset(dataset, data)
    split = node_split(graph, train=0.1, seed=seed)
    model = XTCL(random_state=seed).fit(graph, split)
    start = time.perf_counter()
    rows = {"full": model.embedding_, "compact": model.compact_embedding_}
    seconds = time.perf_counter() - start
    labels = np.asarray(graph.labels)
    found = {}
    for name, embedding in rows.items():
        head = fit_logistic(embedding[split.train], labels[split.train], seed=seed)
        right = head.predict(embedding[split.test]) == labels[split.test]
        found[name] = 100 * float(right.mean())
    difference = found["compact"] - found["full"]
    line = FORM.format(
        dataset,
        seed,
        " to ".join(str(part.shape[1]) for part in rows.values()),
        f"{seconds:.1f}",
        f"{100 * model.score(split):.2f}",
        *(f"{value:.2f}" for value in found.values()),
        f"{difference:+.2f}",
    )
    return line, difference


def main() -> None:
    """Measure, and add what was found to the file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--datasets", default="cora")
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--data")
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()

    def tell(line: str) -> None:
        print(line, flush=True)
        if chosen.out is not None:
            with chosen.out.open("a", encoding="utf-8") as file:
                file.write(line + "\n")

    tell(FORM.format(*COLUMNS) + f"   torch threads: {torch.get_num_threads()}")
    for dataset in chosen.datasets.split(","):
        differences = []
        for seed in range(chosen.splits):
            line, difference = measure(dataset, seed, chosen.data)
            tell(line)
            differences.append(difference)
        tell(f"{dataset}: compact minus full, mean of {chosen.splits}: {np.mean(differences):+.2f}")


if __name__ == "__main__":
    main()
