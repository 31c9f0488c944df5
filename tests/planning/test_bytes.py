"""Predicted bytes against those that torch counts."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate
from typing import Any

import numpy as np
import pytest
import torch
from small_training import CPU
from torch import nn
from torch.profiler import ProfilerActivity, profile

from xtcl.config import BatchConfig, EncoderConfig, EnsembleConfig, FitConfig, TrainingConfig
from xtcl.graph.datasets.synthetic import block_model
from xtcl.graph.graph import Graph
from xtcl.nn import loss
from xtcl.nn.encoder import LayerwiseEncoder, encoder_inputs
from xtcl.nn.ensemble import EncoderEnsemble
from xtcl.nn.gat import GATEncoder
from xtcl.nn.gcn import GCNEncoder
from xtcl.nn.loss import contrastive_loss
from xtcl.planning import bytes as planned_bytes
from xtcl.planning.bytes import head_bytes
from xtcl.planning.memory_plan import NO_LIMIT, plan_stages
from xtcl.planning.sizes import Sizes
from xtcl.planning.training_bytes import encoder_of, full_pass_bytes, mini_pass_bytes, step_bytes
from xtcl.tasks import make_task, newton_cg
from xtcl.tasks.fit import with_head
from xtcl.tasks.fit_options import FitOptions
from xtcl.tasks.logistic import LogisticHead
from xtcl.tasks.node_classification import NodeClassification
from xtcl.tasks.results import FittedEmbedding
from xtcl.tasks.task import Selected
from xtcl.tasks.training_data import TrainingData
from xtcl.training.batch import Batch, LinkDropout
from xtcl.training.neighbor_sampling import MiniBatch

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


# What a step over a mini-batch takes, beside what torch's profiler sees it take.

NODES_MINI_PASS, COLUMNS_MINI_PASS, DRAWS_MINI_PASS = 6000, 60, 3


SETTINGS = TrainingConfig(anchors=100, negatives=32, batch=BatchConfig((5, 5, 5)))


def measured_mini_pass(encoder: LayerwiseEncoder, degree: int, signal: float) -> tuple[int, int]:
    """The links of the graph, and the most bytes that are there at once in a step."""
    graph = block_model(
        NODES_MINI_PASS,
        num_attributes=COLUMNS_MINI_PASS,
        mean_degree=degree,
        attribute_signal=signal,
    )
    x, links = encoder_inputs(graph, CPU)
    passes = MiniBatch(x, LinkDropout(links, 0.0), SETTINGS.batch.neighbours or ())
    draws = torch.Generator().manual_seed(0)
    nodes = torch.randint(NODES_MINI_PASS, (100, 1 + DRAWS_MINI_PASS), generator=draws)
    step = Batch(nodes[:, 0], nodes[:, 1:], torch.randint(NODES_MINI_PASS, (32,), generator=draws))
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
        GCNEncoder(COLUMNS_MINI_PASS, 32),
        GCNEncoder(COLUMNS_MINI_PASS, 128, layers=2, hops=1, batch_norm=True),
        GCNEncoder(COLUMNS_MINI_PASS, 96, layers=3, hops=1),
        GATEncoder(COLUMNS_MINI_PASS, 32),
        GATEncoder(COLUMNS_MINI_PASS, 64, layers=3, heads=4),
    ],
)
@pytest.mark.parametrize("degree", [3, 20])
@pytest.mark.parametrize("signal", [0.0, 9.0])  # few words, which are multiplied as such, or many
def test_is_no_less_than_a_step_takes(
    encoder: LayerwiseEncoder, degree: int, signal: float
) -> None:
    edges, taken = measured_mini_pass(encoder, degree, signal)
    predicted = mini_pass_bytes(encoder, NODES_MINI_PASS, edges, SETTINGS, DRAWS_MINI_PASS)
    assert predicted is not None
    assert taken <= 1.05 * predicted
    assert predicted <= 3 * taken


def test_of_a_module_of_the_user_s_own_nothing_is_known_mini_pass() -> None:
    assert mini_pass_bytes(nn.Linear(3, 3), 10, 10, SETTINGS, DRAWS_MINI_PASS) is None


# What the head is said to take, beside what torch's profiler sees it take.

NODES_HEAD_BYTES, LEARNED, ATTRIBUTES = 1200, 700, 20


CLASSES = np.arange(NODES_HEAD_BYTES) % 3


PLAN = EnsembleConfig((EncoderConfig({"width": LEARNED}, TrainingConfig()),), attributes=1.0)


def some_labels(labelled: int) -> Graph:
    whole = block_model(NODES_HEAD_BYTES, num_classes=3, num_attributes=ATTRIBUTES)
    return Graph.from_arrays(
        whole.attributes, whole.edges, np.where(np.arange(NODES_HEAD_BYTES) < labelled, CLASSES, -1)
    )


class Sure(NodeClassification):
    """Keeps what was learned."""

    def cv_log_likelihood(self, head: LogisticHead) -> float:
        return float("nan")


def measured_head_bytes(side: TrainingData, recipe: FitConfig) -> int:
    """The most bytes that are there at once, with the embedding that was there before."""
    noise = torch.Generator().manual_seed(0)
    z = 0.05 * torch.randn(NODES_HEAD_BYTES, LEARNED + 3 * ATTRIBUTES, generator=noise)
    z[np.arange(NODES_HEAD_BYTES), CLASSES] += 2.0
    nothing: Any = None
    encoder = EncoderEnsemble([], [], attributes=1.0)
    fitted = FittedEmbedding(nothing, nothing, PLAN, encoder, z, ())
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as watched:
        with_head(side, Sure(), recipe, Selected(PLAN), fitted, FitOptions())
    events = watched.profiler.kineto_results.events()
    changes = sorted((e.start_ns(), e.nbytes()) for e in events if e.name() == "[memory]")
    return z.nbytes + max(accumulate(int(size) for _, size in changes))


@pytest.mark.slow
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
    taken = measured_head_bytes(side, recipe)
    predicted = head_bytes(work)
    # Beside the rows there is a basis of them, which counts for something where they are so few.
    assert taken <= 1.1 * predicted
    assert predicted <= 1.2 * taken


# The memory of a training step on a GPU: the captured step, and the steps before the capture.

NODES_RECORDED_BYTES, COLUMNS_RECORDED_BYTES = 1000, 60


def work(task: str, encoder: str = "gcn", nodes: int = NODES_RECORDED_BYTES) -> Sizes:
    sizes = (
        nodes,
        3 * nodes // 2,
        COLUMNS_RECORDED_BYTES,
        4 * nodes * COLUMNS_RECORDED_BYTES,
        4,
        nodes // 10,
    )
    return Sizes("planned", task, *sizes, make_task(task).recipe(encoder), encoder)


def counted_bytes(known: Sizes, member: EncoderConfig) -> int:
    return step_bytes(known, encoder_of(known, member), member.training)


def on_both(known: Sizes, member: EncoderConfig) -> tuple[int, int]:
    return counted_bytes(known, member), counted_bytes(replace(known, device="cuda"), member)


@pytest.mark.parametrize("task", ["nodes", "links"])
def test_a_recorded_step_is_there_beside_that_by_hand(task: str) -> None:
    known = work(task)
    for plan in known.config.ensembles:
        for member in plan.encoders:
            cpu, gpu = on_both(known, member)
            assert gpu >= 2 * cpu


def test_links_that_are_left_out_are_recorded_too() -> None:
    known = replace(work("links"), device="cuda")
    member = known.config.ensembles[0].encoders[0]
    kept = replace(member, training=replace(member.training, link_dropout=0.0))
    assert counted_bytes(known, member) > counted_bytes(known, kept)


def test_attention_and_mini_batches_are_not_captured() -> None:
    attention = work("nodes", "gat")
    first = attention.config.ensembles[0].encoders[0]
    cpu, gpu = on_both(attention, first)
    assert cpu < gpu < 1.5 * cpu
    known = work("nodes")
    member = known.config.ensembles[0].encoders[0]
    batch = BatchConfig(neighbours=())
    cpu, gpu = on_both(known, replace(member, training=replace(member.training, batch=batch)))
    assert cpu < gpu < 1.5 * cpu


def test_by_hand_it_is_what_the_loss_of_a_gpu_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a CPU, where the loss can be had in the form that a GPU takes."""
    monkeypatch.setattr(loss, "FEW_POSITIVES", 0)
    known = replace(work("links"), device="cuda")
    member = known.config.ensembles[0].encoders[0]
    member = replace(member, training=replace(member.training, link_dropout=0.0))
    encoder = GCNEncoder(COLUMNS_RECORDED_BYTES, **member.encoder)  # type: ignore[arg-type]
    x, links = encoder_inputs(
        block_model(NODES_RECORDED_BYTES, num_attributes=COLUMNS_RECORDED_BYTES),
        torch.device("cpu"),
    )
    positives = torch.randint(NODES_RECORDED_BYTES, (NODES_RECORDED_BYTES, known.draws))
    negatives = torch.randint(NODES_RECORDED_BYTES, (member.training.negatives,))
    encoder(x, links)  # smooths the attributes
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as watched:
        torch.autograd.backward(loss.contrastive_loss(encoder(x, links), positives, negatives))
    events = watched.profiler.kineto_results.events()
    changes = sorted((e.start_ns(), e.nbytes()) for e in events if e.name() == "[memory]")
    taken = max(accumulate(int(size) for _, size in changes))
    without_capture = counted_bytes(known, member) / 2
    assert taken <= without_capture <= 1.5 * taken


def test_mini_batches_come_in_where_a_recording_has_no_room() -> None:
    known = work("nodes", nodes=200_000)
    enough = plan_stages(known, NO_LIMIT).peak
    assert not plan_stages(known, enough).mini_batches
    on_gpu = replace(known, device="cuda")
    assert not plan_stages(on_gpu, NO_LIMIT).mini_batches
    assert plan_stages(on_gpu, enough).mini_batches
