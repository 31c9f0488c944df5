"""What the head is said to take, beside what torch's profiler sees it take."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import numpy as np
import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from xtcl.config import EncoderConfig, EnsembleConfig, FitConfig, TrainingConfig
from xtcl.graph.datasets.synthetic import block_model
from xtcl.graph.graph import Graph
from xtcl.nn.ensemble import EncoderEnsemble
from xtcl.planning import bytes as planned_bytes
from xtcl.planning.bytes import head_bytes
from xtcl.planning.sizes import Sizes
from xtcl.tasks import newton_cg
from xtcl.tasks.fit import FitOptions, with_head
from xtcl.tasks.logistic import LogisticHead
from xtcl.tasks.node_classification import NodeClassification
from xtcl.tasks.results import FittedEmbedding
from xtcl.tasks.task import Selected
from xtcl.tasks.training_data import TrainingData

NODES, LEARNED, ATTRIBUTES = 1200, 700, 20
CLASSES = np.arange(NODES) % 3
PLAN = EnsembleConfig((EncoderConfig({"width": LEARNED}, TrainingConfig()),), attributes=1.0)


def some_labels(labelled: int) -> Graph:
    whole = block_model(NODES, num_classes=3, num_attributes=ATTRIBUTES)
    return Graph.from_arrays(
        whole.attributes, whole.edges, np.where(np.arange(NODES) < labelled, CLASSES, -1)
    )


class Sure(NodeClassification):
    """Keeps what was learned."""

    def cv_log_likelihood(self, head: LogisticHead) -> float:
        return float("nan")


def measured(side: TrainingData, recipe: FitConfig) -> int:
    """The most bytes that are there at once, with the embedding that was there before."""
    noise = torch.Generator().manual_seed(0)
    z = 0.05 * torch.randn(NODES, LEARNED + 3 * ATTRIBUTES, generator=noise)
    z[np.arange(NODES), CLASSES] += 2.0
    nothing: Any = None
    encoder = EncoderEnsemble([], [], attributes=1.0)
    fitted = FittedEmbedding(nothing, nothing, PLAN, encoder, z, ())
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as watched:
        with_head(side, Sure(), recipe, Selected(PLAN), fitted, FitOptions())
    events = watched.profiler.kineto_results.events()
    changes = sorted((e.start_ns(), e.nbytes()) for e in events if e.name() == "[memory]")
    return z.nbytes + max(accumulate(int(size) for _, size in changes))


@pytest.mark.parametrize(("labelled", "sure"), [(150, 1.0), (1000, 1.0), (400, 0.8)])
def test_is_what_the_head_takes(
    labelled: int, sure: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (newton_cg, planned_bytes):
        monkeypatch.setattr(module, "MAX_SPAN_ROWS", 200)
        monkeypatch.setattr(module, "ROTATION_BLOCK", 2**15)
    recipe = FitConfig(ensembles=(PLAN,), downweight=0.025, self_training_threshold=sure)
    side = TrainingData(some_labels(labelled))
    work = Sizes.of(side, "nodes", recipe)
    assert (work.labelled, work.width) == (labelled, LEARNED + 3 * ATTRIBUTES)
    taken = measured(side, recipe)
    predicted = head_bytes(work)
    # Beside the rows there is a basis of them, which counts for something where they are so few.
    assert taken <= 1.1 * predicted
    assert predicted <= 1.2 * taken
