"""A captured step does what the same step does without capture."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from xtcl import cuda_graphs as repeated_step
from xtcl.config import TrainingConfig
from xtcl.cuda_graphs import GraphedStep, side_stream
from xtcl.device import DRIVER_BYTES, limit_gpu_memory
from xtcl.nn.gcn import GCNEncoder
from xtcl.sampling.positives import PositiveLists
from xtcl.training import trainer
from xtcl.training.trainer import TrainingResult, train

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")


@needs_gpu
def test_replayed_steps_are_those_taken_by_hand() -> None:
    device = torch.device("cuda")

    def run() -> tuple[Tensor, list[float], Tensor]:
        generator = torch.Generator(device).manual_seed(3)
        weight = torch.ones(7, 5, device=device, requires_grad=True)
        optimiser = torch.optim.Adam([weight], lr=0.1, fused=True, capturable=True)

        def step(rows: Tensor) -> Tensor:
            noise = torch.rand(len(rows), 7, generator=generator, device=device)
            loss = ((noise + rows[:, None]) @ weight).square().mean()
            optimiser.zero_grad()
            torch.autograd.backward(loss)
            optimiser.step()
            return loss.detach()

        with side_stream(device):
            take = GraphedStep(step, generator)
            everyone = torch.arange(11.0, device=device)
            losses = [take(part) for _ in range(6) for part in everyone.tensor_split(2)]
        return weight.detach(), [float(loss) for loss in losses], generator.get_state()

    replayed = run()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(repeated_step, "WARM_UP", 1000)
        by_hand = run()
    torch.testing.assert_close(replayed[0], by_hand[0])
    assert replayed[1] == pytest.approx(by_hand[1])
    assert torch.equal(replayed[2], by_hand[2])


@needs_gpu
def test_steps_go_on_by_hand_where_a_recording_has_no_room() -> None:
    device = torch.device("cuda")

    def run(room: bool) -> tuple[list[float], Tensor]:
        generator = torch.Generator(device).manual_seed(3)
        weight = torch.ones(5, device=device, requires_grad=True)

        def step(rows: Tensor) -> Tensor:
            loss = (torch.rand(5, generator=generator, device=device) * weight).sum() * rows.sum()
            if not room and torch.cuda.is_current_stream_capturing():
                raise torch.OutOfMemoryError("CUDA out of memory.")
            return loss.detach()

        with side_stream(device):
            take = GraphedStep(step, generator)
            losses = [take(torch.arange(4.0, device=device)) for _ in range(6)]
        return [float(loss) for loss in losses], generator.get_state()

    recorded, by_hand = run(True), run(False)
    assert by_hand[0] == recorded[0]
    assert torch.equal(by_hand[1], recorded[1])


@needs_gpu
def test_memory_that_runs_out_in_a_recording_leaves_everything_as_it_was() -> None:
    device, block = torch.device("cuda"), 64 * 2**20
    generator = torch.Generator(device).manual_seed(3)

    def step(rows: Tensor) -> Tensor:
        blocks = 20 if torch.cuda.is_current_stream_capturing() else 2
        torch.empty(blocks * block, dtype=torch.uint8, device=device)
        return rows.sum() + torch.rand((), generator=generator, device=device)

    with limit_gpu_memory(DRIVER_BYTES + 10 * block, device), side_stream(device):
        take = GraphedStep(step, generator)
        found = [float(take(torch.ones(3, device=device))) for _ in range(5)]
    generator.manual_seed(3)
    assert found == [float(step(torch.ones(3, device=device))) for _ in range(5)]


@needs_gpu
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("share", [0.0, 0.5])
@pytest.mark.parametrize("draws", [2, None])
def test_replayed_training_is_that_by_hand(layers: int, share: float, draws: int | None) -> None:
    device = torch.device("cuda")
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(40, 6, generator=draw).to(device)
    ends = torch.randint(40, (2, 60), generator=draw)
    ends = ends[:, ends[0] != ends[1]]
    edge_index = torch.unique(torch.cat([ends, ends.flip(0)], dim=1), dim=1).to(device)
    positives = PositiveLists.from_table(torch.randint(40, (40, 5), generator=draw).numpy(), draws)
    settings = TrainingConfig(epochs=8, anchors=None, negatives=10, link_dropout=share)

    def run() -> TrainingResult:
        encoder = lambda: GCNEncoder(6, 8, layers=layers, hops=1)  # noqa: E731
        return train(encoder, x, edge_index, [positives], settings)[1]

    replayed = run()
    with pytest.MonkeyPatch.context() as patch:  # links that are left out are then not there
        patch.setattr(trainer, "can_capture", lambda encoder, settings: False)
        by_hand = run()
    assert replayed.losses == pytest.approx(by_hand.losses, rel=1e-3)
    torch.testing.assert_close(replayed.embedding, by_hand.embedding, rtol=1e-2, atol=1e-3)
