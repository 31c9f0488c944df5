"""One of several processes that find counts and positives together; see `small_ranks`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_ranks import taking_part
from small_runs import small_graph

from xtcl.config import SamplerConfig
from xtcl.distributed import world
from xtcl.errors import UsageError
from xtcl.relations.store.relation_store import RelationStore
from xtcl.relations.view import TrainingView
from xtcl.sampling.xgsampler import XGSampler
from xtcl.tasks import make_task

NODES = 200
CASES = [
    (task, options)
    for task in ("nodes", "links")
    for options in (
        {},
        {"cap": 6},
        {"cap": 6, "quantiles": (0.5, 0.9)},
        {"store": True},
        {"store": True, "cap": 6},
    )
]
AGAIN: list[tuple[str, dict[str, Any]]] = [
    ("nodes", {"store": True}),
    ("nodes", {"store": True, "cap": 6}),
]


def found(task: str, options: dict[str, Any], folder: Path) -> dict[str, np.ndarray]:
    """Counts and positives of a fit."""
    graph = small_graph(NODES)
    view = TrainingView.of(graph, np.arange(0, NODES if task == "nodes" else 0, 3))
    options = dict(options)
    store = RelationStore(folder) if options.pop("store", False) else None
    folds = make_task(task).folds(view, 4, np.random.default_rng(0))
    # Two blocks: fewer than three ranks.
    sampler = XGSampler("paper", SamplerConfig(**options), block_rows=90, store=store)
    sampler.fit_folds(view, folds)
    best = sampler.positives(7, exclude=view.adjacency if task == "links" else None)
    counted = sampler.counts_
    return {
        "codes": counted.codes,
        "counts": counted.counts,
        "nodes": best.nodes,
        "scores": best.scores,
    }


def all_found(folder: Path) -> Iterator[tuple[str, np.ndarray]]:
    """What every case finds, by name."""
    for task, options in CASES:
        for name, array in found(task, options, folder / "store").items():
            yield f"{task} {options} {name}", array


def main() -> None:
    """Find everything together, and once more what then is in the store, which not all may have."""
    with taking_part() as (rank, out):
        results = dict(all_found(out))
        own = out / ("store" if rank == 0 else f"store of {rank}")
        again = {
            f"again {where} {task} {options} {name}": array
            for where, folder in (("shared", out / "store"), ("own", own))
            for task, options in AGAIN
            for name, array in found(task, options, folder).items()
        }
        world().assert_same("the same")
        with pytest.raises(UsageError, match="given different graphs"):
            world().assert_same(str(rank))
    results |= again
    assert world().world_size == 1
    np.savez(out / f"rank-{rank}.npz", **results)  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
