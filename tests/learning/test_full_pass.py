"""What a step over the whole graph takes, beside what torch's profiler sees it take."""

from __future__ import annotations

from itertools import accumulate

import pytest
import torch
from small_training import CPU
from torch import nn
from torch.profiler import ProfilerActivity, profile

from xtcl.config import TrainingConfig
from xtcl.graph.datasets.synthetic import block_model
from xtcl.nn.encoder import encoder_inputs
from xtcl.nn.gat import GATEncoder
from xtcl.nn.gcn import GCNEncoder
from xtcl.nn.loss import contrastive_loss
from xtcl.planning.training_bytes import full_pass_bytes

NODES, COLUMNS, DRAWS = 1000, 60, 3


def measured(encoder: nn.Module, degree: float, signal: float, settings: TrainingConfig) -> int:
    """The most bytes that are there at once in a step, beside what was there before."""
    graph = block_model(
        NODES,
        num_attributes=COLUMNS,
        mean_degree=degree,
        attribute_signal=signal,
    )
    x, links = encoder_inputs(graph, CPU)
    anchors = torch.randperm(NODES)[: NODES // settings.steps_per_epoch(NODES)]
    positives = torch.randint(NODES, (len(anchors), DRAWS))
    negatives = torch.randint(NODES, (settings.negatives,))
    encoder(x, links)  # smooths the attributes
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as watched:
        z = encoder(x, links)
        torch.autograd.backward(contrastive_loss(z, positives, negatives, anchors=anchors))
        del z
    events = watched.profiler.kineto_results.events()
    changes = sorted((e.start_ns(), e.nbytes()) for e in events if e.name() == "[memory]")
    return max(accumulate(int(size) for _, size in changes))


@pytest.mark.parametrize(
    "encoder",
    [
        GCNEncoder(COLUMNS, 32),
        GCNEncoder(COLUMNS, 8),
        GCNEncoder(COLUMNS, 48, layers=2, hops=1),
        GCNEncoder(COLUMNS, 96, layers=3, hops=1, batch_norm=True),
        GATEncoder(COLUMNS, 32),
        GATEncoder(COLUMNS, 64, layers=3, heads=4),
    ],
)
@pytest.mark.parametrize("degree", [3, 20])
@pytest.mark.parametrize("signal", [0.0, 9.0])  # few words, which are multiplied as such, or many
def test_is_what_a_step_takes(encoder: nn.Module, degree: int, signal: float) -> None:
    settings = TrainingConfig(anchors=100, negatives=32)
    predicted = full_pass_bytes(encoder, NODES, NODES * degree // 2, settings, DRAWS)
    assert predicted is not None
    taken = measured(encoder, degree, signal, settings)
    assert taken <= 1.02 * predicted
    assert predicted <= 1.5 * taken


def test_an_epoch_of_one_step() -> None:
    encoder, settings = GCNEncoder(COLUMNS, 32), TrainingConfig(anchors=None, negatives=64)
    predicted = full_pass_bytes(encoder, NODES, 1500, settings, DRAWS)
    assert predicted is not None
    assert 0.4 * predicted < measured(encoder, 3, 9.0, settings) <= 1.02 * predicted


def test_attention_over_ten_million_links() -> None:
    with torch.device("meta"):
        encoder = GATEncoder(128, 512)
    settings = TrainingConfig()
    needed = full_pass_bytes(encoder, 10**6, 10**7, settings, DRAWS)
    assert needed is not None
    assert 1.6e11 < needed < 2e11


def test_of_a_module_of_the_user_s_own_nothing_is_known() -> None:
    own, settings = nn.Linear(3, 3), TrainingConfig()
    assert full_pass_bytes(own, 10**9, 10**9, settings, DRAWS) is None
