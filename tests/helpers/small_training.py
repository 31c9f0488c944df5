"""A training on a small graph with planted groups."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from xtcl.config import TrainingConfig
from xtcl.graph.datasets.synthetic import block_model
from xtcl.graph.graph import Graph
from xtcl.nn import encoder_factory
from xtcl.nn.encoder import encoder_inputs
from xtcl.nn.loss import contrastive_loss
from xtcl.sampling.positives import PositiveLists
from xtcl.training.trainer import TrainingResult, train

CPU = torch.device("cpu")
SHORT = TrainingConfig(epochs=4, negatives=16)


def planted(count: int = 90) -> Graph:
    """Three groups of nodes."""
    return block_model(count, num_classes=3, mean_degree=6, homophily=0.95, seed=1)


def run(
    graph: Graph,
    settings: TrainingConfig = SHORT,
    encoder: str | nn.Module = "gcn",
    encoder_options: dict[str, object] | None = None,
    **options: Any,
) -> tuple[nn.Module, TrainingResult]:
    """Train on the links of `graph` as positives."""
    x, edge_index = encoder_inputs(graph, CPU)
    chosen: dict[str, object] = {"width": 16} if isinstance(encoder, str) else {}
    sources = [PositiveLists.from_links(graph.adjacency, num_per_step=3)]
    make = encoder_factory(encoder, x.shape[1], chosen | (encoder_options or {}))
    return train(make, x, edge_index, sources, settings, **options)


def interrupting(at: int) -> Callable[..., Tensor]:
    """The loss, but for an interrupt in the step of this number."""
    steps = 0

    def loss(*given: Any, **options: Any) -> Tensor:
        nonlocal steps
        steps += 1
        if steps == at:
            raise KeyboardInterrupt
        return contrastive_loss(*given, **options)

    return loss
