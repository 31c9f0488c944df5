"""A step of training whose anchors the ranks share.

Every rank draws the same nodes from the same seed, embeds what its own anchors need, and adds its
part of the loss. The sum of the parts, and of their gradients, is that of the whole step to
rounding. Full steps pass over the whole graph on every rank, so only the loss is divided there;
steps in mini-batches are divided as a whole. Cost: one exchange of all gradients a step.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from xtcl.learning.step_nodes import StepNodes
from xtcl.ranks import ranks


def own_part(step: StepNodes, weights: Tensor) -> tuple[StepNodes, Tensor, Tensor | float]:
    """The anchors of this rank, the weights of their positives, and their part of the mean loss."""
    everyone = ranks()
    if everyone.number == 1:
        return step, weights, 1.0
    own = everyone.shares([len(step.anchors)])[0]
    counted = (weights * (step.positives >= 0)).sum(dim=1) > 0  # those the loss is a mean over
    part = counted[own].sum() / counted.sum().clamp_min(1)
    return StepNodes(step.anchors[own], step.positives[own], step.negatives), weights[own], part


def shared_backward(encoder: nn.Module, value: Tensor, part: Tensor | float) -> Tensor:
    """Set the gradients of the whole step from a rank's part of it, and give its loss.

    Statistics that an encoder keeps, as batch norm does, become the mean of all ranks.
    """
    everyone = ranks()
    if everyone.number == 1:
        torch.autograd.backward(value)
        return value.detach()
    own = value * part
    torch.autograd.backward(own)
    gradients = [each.grad for each in encoder.parameters() if each.grad is not None]
    kept = [each for each in encoder.buffers() if each.is_floating_point()]
    summed = [own.detach(), *gradients, *(each / everyone.number for each in kept)]
    total = everyone.total(torch.cat([each.reshape(-1) for each in summed]))
    parts = torch.split(total, [each.numel() for each in summed])
    for old, new in zip([*gradients, *kept], parts[1:], strict=True):
        old.copy_(new.view_as(old))
    return total[0]


def own_draws(generator: torch.Generator) -> torch.Generator:
    """Chance of this rank's own for a step, which follows from that of all.

    Ranks need different numbers of draws; with one generator they would drift apart. Seeded anew in
    every step, chance inside the encoder is the same again after an interrupt, too.
    """
    everyone = ranks()
    if everyone.number == 1:
        return generator
    own = torch.Generator(generator.device)
    own.set_state(generator.get_state())  # a copy: what all draw next stays as it is for one alone
    seed = int(torch.randint(2**31, (1,), generator=own, device=own.device)) + everyone.own
    torch.default_generator.manual_seed(seed)
    if generator.device.type == "cuda":
        torch.cuda.manual_seed(seed)
    return own.manual_seed(seed)
