"""Several relations bound to one view, asked for levels together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from xtcl.relations.relation import Relation
from xtcl.relations.thresholds import levels
from xtcl.relations.view import TrainingView


class PatternRows:
    """For a block of nodes: each relation's similarities and the levels they reach."""

    def __init__(
        self, relations: Sequence[Relation], view: TrainingView, quantiles: Sequence[float]
    ) -> None:
        self.relations = tuple(relations)
        self.quantiles = tuple(quantiles)
        self.num_nodes = view.num_nodes
        self.device = view.device
        self._rows = [relation.on(view) for relation in self.relations]

    def __call__(self, nodes: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield (similarities, levels), both [b, V], relation by relation."""
        nodes = nodes.to(self.device)
        for rows in self._rows:
            similarities = rows(nodes)
            yield similarities, levels(similarities, nodes, self.quantiles)

    def similarities(self, nodes: Tensor) -> Iterator[Tensor]:
        """Yield similarities [b, V] alone, relation by relation."""
        nodes = nodes.to(self.device)
        return (rows(nodes) for rows in self._rows)

    def blocks(self, nodes: Tensor, height: int) -> Iterator[Tensor]:
        """`nodes` in blocks of `height` rows, on the device."""
        return iter(torch.split(nodes.to(self.device), height))


def usable(
    relations: Sequence[Relation], view: TrainingView
) -> tuple[tuple[Relation, ...], dict[str, list[str]]]:
    """The relations whose data are there, and for each of the others what it lacks."""
    lacking = {relation.name: sorted(relation.reads - view.evidence) for relation in relations}
    there = tuple(relation for relation in relations if not lacking[relation.name])
    return there, {name: kinds for name, kinds in lacking.items() if kinds}


def block_height(num_nodes: int, bytes_per_array: int = 64 * 2**20) -> int:
    """Rows of V floats that fit `bytes_per_array`, at least one."""
    return max(1, bytes_per_array // (4 * num_nodes))


def all_nodes(num_nodes: int) -> Tensor:
    """0 .. V-1."""
    return torch.arange(num_nodes)
