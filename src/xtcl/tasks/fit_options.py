"""What a fit takes besides data, task and configuration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import nn

from xtcl.graph.graph import Graph
from xtcl.nn.loss import Loss
from xtcl.progress import Progress
from xtcl.relations.relation import Relation
from xtcl.relations.store.relation_store import RelationStore
from xtcl.sampling.strategies import PositiveStrategy
from xtcl.training.checkpoint import NullCheckpoints


@dataclass(frozen=True)
class FitOptions:
    """What a fit takes besides data, task and configuration."""

    encoder: str | nn.Module = "gcn"
    relations: str | Sequence[str | Relation] = "paper"
    strategy: PositiveStrategy | None = None  # in place of the one that the recipe names
    loss: Loss | None = None  # in place of Equation 1
    seed: int = 0
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    block_rows: int | None = None
    keep_relations: bool = True  # after the positives, for explanations and scores of links
    store: RelationStore | None = None
    progress: Progress = field(default_factory=Progress)
    checkpoints: NullCheckpoints = field(default_factory=NullCheckpoints)

    def for_graph(self, graph: Graph) -> FitOptions:
        """The options with checkpoints for this graph: a task may fit on several."""
        return replace(self, checkpoints=self.checkpoints.subfolder(graph.fingerprint()[:16]))
