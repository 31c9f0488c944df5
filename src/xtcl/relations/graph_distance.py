"""Shortest-path distance, turned into a similarity."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from xtcl.errors import UsageError
from xtcl.relations.bit_search import WORD, BitSearch
from xtcl.relations.diameter import MOST_STEPS, largest_component_diameter
from xtcl.relations.kernels.use import kernels_run_on
from xtcl.relations.relation import Relation, Rows
from xtcl.relations.side_by_side import side_by_side
from xtcl.relations.sparse import to_device
from xtcl.relations.view import LINKS, TrainingView


@dataclass(frozen=True)
class GraphDistance(Relation):
    r"""Two nodes are alike when few steps lead from one to the other.

    .. math:: s(u, v) = \frac{D - d(u, v) + 1}{D}

    with D the diameter of the largest connected component, and 0 between components.

    Range: [0, 1] between different nodes. Symmetric. Only the order within a row matters to the
    sampler, so a component wider than D loses nothing but the order beyond D steps.
    Cost: O(E + b V) memory, O(b V) and D steps of O(b E / 64) words for b rows; finding D takes a
    few searches of O(E) on most graphs and V of them in the worst case.
    Isolated node: 0 to every other node.
    Citation: Dijkstra, "A note on two problems in connexion with graphs", Numerische Mathematik 1,
    1959.

    On random graphs finding D is what takes longest. `searches` is a limit for it, after which D is
    the least bound known: similarities change, their order does not.

    >>> from xtcl.relations.examples import path_of_four, rows
    >>> rows(GraphDistance(), path_of_four(), [0])
    [[1.0, 1.0, 0.667, 0.333]]
    """

    searches: int | None = None

    name: ClassVar[str] = "graph-distance"
    title: ClassVar[str] = "Graph Distance"
    reads: ClassVar[frozenset[str]] = frozenset({LINKS})
    row_by_row: ClassVar[bool] = True
    by_threads: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.searches is not None and self.searches < 1:
            raise UsageError(f"GraphDistance needs one search at least, not {self.searches}.")

    def diameter(self, view: TrainingView) -> int:
        """D, found once."""
        key = ("diameter", self.searches)
        return view.once(
            key, lambda: largest_component_diameter(view.adjacency, self.searches, view.device)
        )

    def prepare(self, view: TrainingView) -> Rows:
        """Find the diameter once; then search breadth-first from many nodes together."""
        diameter = self.diameter(view)
        on_gpu = kernels_run_on(view.device) and diameter < MOST_STEPS
        return (_by_kernel if on_gpu else _by_words)(view, diameter)


def _by_words(view: TrainingView, diameter: int) -> Rows:
    """D - d + 1 is the number of steps 1 .. D with which a node is within reach."""
    search = BitSearch(view.adjacency)

    def steps(nodes: np.ndarray) -> np.ndarray:
        return search.steps_within_reach(nodes, diameter)

    def compute(nodes: Tensor) -> Tensor:
        share = math.ceil(len(nodes) / torch.get_num_threads() / WORD) * WORD
        parts = torch.split(nodes.cpu(), share)
        found = side_by_side(steps, [part.numpy() for part in parts])
        return torch.from_numpy(np.concatenate(found)).to(view.device, torch.float32) / diameter

    return compute


def _by_kernel(view: TrainingView, diameter: int) -> Rows:
    """The same from a kernel."""
    from xtcl.relations.kernels.reach import steps_within_reach

    links = to_device(view.adjacency, view.device)
    start, end = links.crow_indices(), links.col_indices()

    def compute(nodes: Tensor) -> Tensor:
        steps = steps_within_reach(start, end, nodes, diameter)
        return steps.T.to(torch.float32, memory_format=torch.contiguous_format).div_(diameter)

    return compute
