"""What a training step takes on a GPU, where it is recorded beside the steps taken by hand."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from xtcl.config import BatchConfig, EncoderConfig
from xtcl.graph.datasets.synthetic import block_model
from xtcl.nn import loss
from xtcl.nn.encoder import encoder_inputs
from xtcl.nn.gcn import GCNEncoder
from xtcl.planning.memory_plan import NO_LIMIT, plan_stages
from xtcl.planning.sizes import Sizes
from xtcl.planning.training_bytes import encoder_of, step_bytes
from xtcl.tasks import make_task

NODES, COLUMNS = 1000, 60


def work(task: str, encoder: str = "gcn", nodes: int = NODES) -> Sizes:
    sizes = (nodes, 3 * nodes // 2, COLUMNS, 4 * nodes * COLUMNS, 4, nodes // 10)
    return Sizes("planned", task, *sizes, make_task(task).recipe(encoder), encoder)


def told(known: Sizes, member: EncoderConfig) -> int:
    return step_bytes(known, encoder_of(known, member), member.training)


def on_both(known: Sizes, member: EncoderConfig) -> tuple[int, int]:
    return told(known, member), told(replace(known, device="cuda"), member)


@pytest.mark.parametrize("task", ["nodes", "links"])
def test_a_recorded_step_is_there_beside_that_by_hand(task: str) -> None:
    known = work(task)
    for plan in known.recipe.ensembles:
        for member in plan.encoders:
            cpu, gpu = on_both(known, member)
            assert gpu >= 2 * cpu


def test_links_that_are_left_out_are_recorded_too() -> None:
    known = replace(work("links"), device="cuda")
    member = known.recipe.ensembles[0].encoders[0]
    kept = replace(member, training=replace(member.training, link_dropout=0.0))
    assert told(known, member) > told(known, kept)


def test_attention_and_mini_batches_are_not_recorded() -> None:
    attention = work("nodes", "gat")
    first = attention.recipe.ensembles[0].encoders[0]
    cpu, gpu = on_both(attention, first)
    assert cpu < gpu < 1.5 * cpu
    known = work("nodes")
    member = known.recipe.ensembles[0].encoders[0]
    batch = BatchConfig(neighbours=())
    cpu, gpu = on_both(known, replace(member, training=replace(member.training, batch=batch)))
    assert cpu < gpu < 1.5 * cpu


def test_by_hand_it_is_what_the_loss_of_a_gpu_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a CPU, where the loss can be had in the form that a GPU takes."""
    monkeypatch.setattr(loss, "FEW_POSITIVES", 0)
    known = replace(work("links"), device="cuda")
    member = known.recipe.ensembles[0].encoders[0]
    member = replace(member, training=replace(member.training, link_dropout=0.0))
    encoder = GCNEncoder(COLUMNS, **member.encoder)  # type: ignore[arg-type]
    x, links = encoder_inputs(block_model(NODES, num_attributes=COLUMNS), torch.device("cpu"))
    positives = torch.randint(NODES, (NODES, known.draws))
    negatives = torch.randint(NODES, (member.training.negatives,))
    encoder(x, links)  # smooths the attributes
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as watched:
        torch.autograd.backward(loss.contrastive_loss(encoder(x, links), positives, negatives))
    events = watched.profiler.kineto_results.events()
    changes = sorted((e.start_ns(), e.nbytes()) for e in events if e.name() == "[memory]")
    taken = max(accumulate(int(size) for _, size in changes))
    by_hand = told(known, member) / 2
    assert taken <= by_hand <= 1.5 * taken


def test_mini_batches_come_in_where_a_recording_has_no_room() -> None:
    known = work("nodes", nodes=200_000)
    enough = plan_stages(known, NO_LIMIT).peak
    assert not plan_stages(known, enough).mini_batches
    on_gpu = replace(known, device="cuda")
    assert not plan_stages(on_gpu, NO_LIMIT).mini_batches
    assert plan_stages(on_gpu, enough).mini_batches
