"""A fit in top-k mode of a random graph, all of it labelled; prints the memory that it took."""

from __future__ import annotations

import resource
import sys

import numpy as np
import torch

from xtcl.config import SamplerConfig
from xtcl.relations.view import TrainingView
from xtcl.sampling.xgsampler import XGSampler
from xtcl.tasks import make_task


def random_view(count: int, labelled: bool) -> TrainingView:
    """2V random links, eight attributes, three classes."""
    rng = np.random.default_rng(0)
    links = rng.integers(count, size=(2, 2 * count))
    return TrainingView(
        attributes=rng.normal(size=(count, 8)).astype(np.float32),
        adjacency=TrainingView.adjacency_of(links[:, links[0] != links[1]], count),
        labels=rng.integers(3, size=count) if labelled else np.full(count, -1),
        num_classes=3,
    )


def fit(task: str, count: int) -> None:
    """All that a fit asks of the sampler."""
    view = random_view(count, labelled=task == "nodes")
    folds = make_task(task).folds(view, 3, np.random.default_rng(0))
    sampler = XGSampler("paper", SamplerConfig(cap=4), block_rows=1024).fit_folds(view, folds)
    found = sampler.positives(5, exclude=view.adjacency if task == "links" else None)
    assert (found.nodes[:, 0] >= 0).mean() > 0.9
    sampler.similarities(np.random.default_rng(1).integers(count, size=(2, 100)))
    sampler.explain(0, int(found.nodes[0, 0]))
    if task == "nodes":
        pairs = sum(len(fold.queries) * (len(fold.queries) - 1) for fold in folds)
        assert sampler.counts_.counts.sum() == pairs


if __name__ == "__main__":
    torch.set_num_threads(1)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    fit(sys.argv[1], int(sys.argv[2]))
    print(1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before))
