"""What a step over a mini-batch takes, beside what torch's profiler sees it take."""

from __future__ import annotations

from itertools import accumulate

import pytest
import torch
from small_training import CPU
from torch import nn
from torch.profiler import ProfilerActivity, profile

from xtcl.config import BatchConfig, TrainingConfig
from xtcl.graph.datasets.synthetic import block_model
from xtcl.nn.encoder import LayerwiseEncoder, encoder_inputs
from xtcl.nn.gat import GATEncoder
from xtcl.nn.gcn import GCNEncoder
from xtcl.nn.loss import contrastive_loss
from xtcl.planning.training_bytes import mini_pass_bytes
from xtcl.training.batch import Batch, LinkDropout
from xtcl.training.neighbor_sampling import MiniBatch

NODES, COLUMNS, DRAWS = 6000, 60, 3
SETTINGS = TrainingConfig(anchors=100, negatives=32, batch=BatchConfig((5, 5, 5)))


def measured(encoder: LayerwiseEncoder, degree: int, signal: float) -> tuple[int, int]:
    """The links of the graph, and the most bytes that are there at once in a step."""
    graph = block_model(NODES, num_attributes=COLUMNS, mean_degree=degree, attribute_signal=signal)
    x, links = encoder_inputs(graph, CPU)
    passes = MiniBatch(x, LinkDropout(links, 0.0), SETTINGS.batch.neighbours or ())
    draws = torch.Generator().manual_seed(0)
    nodes = torch.randint(NODES, (100, 1 + DRAWS), generator=draws)
    step = Batch(nodes[:, 0], nodes[:, 1:], torch.randint(NODES, (32,), generator=draws))
    encoder.train()
    encoder.smoothed_x(x, links)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as watched:
        z, rows = passes.embed(encoder, step, draws)
        loss = contrastive_loss(z, rows.positives, rows.negatives, anchors=rows.anchors)
        torch.autograd.backward(loss)
        del z, loss
    events = watched.profiler.kineto_results.events()
    changes = sorted((e.start_ns(), e.nbytes()) for e in events if e.name() == "[memory]")
    return graph.num_edges, max(accumulate(int(size) for _, size in changes))


@pytest.mark.parametrize(
    "encoder",
    [
        GCNEncoder(COLUMNS, 32),
        GCNEncoder(COLUMNS, 128, layers=2, hops=1, batch_norm=True),
        GCNEncoder(COLUMNS, 96, layers=3, hops=1),
        GATEncoder(COLUMNS, 32),
        GATEncoder(COLUMNS, 64, layers=3, heads=4),
    ],
)
@pytest.mark.parametrize("degree", [3, 20])
@pytest.mark.parametrize("signal", [0.0, 9.0])  # few words, which are multiplied as such, or many
def test_is_no_less_than_a_step_takes(
    encoder: LayerwiseEncoder, degree: int, signal: float
) -> None:
    edges, taken = measured(encoder, degree, signal)
    predicted = mini_pass_bytes(encoder, NODES, edges, SETTINGS, DRAWS)
    assert predicted is not None
    assert taken <= 1.05 * predicted
    assert predicted <= 3 * taken


def test_of_a_module_of_the_user_s_own_nothing_is_known() -> None:
    assert mini_pass_bytes(nn.Linear(3, 3), 10, 10, SETTINGS, DRAWS) is None
