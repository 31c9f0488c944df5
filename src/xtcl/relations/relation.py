"""A semantic relation: a similarity s_r(u, v) in [0, 1], computed a few rows at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from xtcl.errors import UsageError
from xtcl.graph.graph import Graph
from xtcl.relations.view import LABELS, TrainingView

Rows = Callable[[Tensor], Tensor]
"""Takes node indices [b], gives their similarities to all nodes, float32 [b, V]."""


AT_ONCE = 2**26
"""Pairs of one call on a GPU, where rows are made one by one: 256 MB of similarities."""


IN_CACHE = 2**20
"""Numbers of an array that a CPU passes over again and again: three of them stay in its cache."""


TOLERANCE = 1e-6
"""How far rounding may carry a similarity above 1; it is then cut to 1."""


def tile_rows(device: torch.device) -> int:
    """Rows to compute at once: enough to keep the device busy, few enough for its cache."""
    return 64 if device.type == "cpu" else 1024


class Relation(ABC):
    """One graph signal. A subclass is a frozen dataclass whose fields are its parameters.

    `prepare` does once what all rows share and returns a function from nodes to rows. It gets a
    view of the training data, so it cannot leak what the view does not hold.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    reads: ClassVar[frozenset[str]]
    row_by_row: ClassVar[bool] = False
    """Whether a row comes out the same to the last bit in any company."""
    by_threads: ClassVar[bool] = False
    """Whether the threads of a CPU divide the nodes of a call; rows are then made row by row."""
    by_columns: ClassVar[bool] = False
    """Whether b rows are made as b columns [V, b], in many passes over all of them."""

    @abstractmethod
    def prepare(self, view: TrainingView) -> Rows:
        """The function that computes rows of similarities for `view`."""

    @property
    def foreign(self) -> bool:
        """Whether it is not one of ours: nobody knows then what it computes and really reads."""
        return not type(self).__module__.startswith("xtcl.relations.")

    @property
    def label_free(self) -> bool:
        """Whether it is surely the same for all views that differ in labels only."""
        return not self.foreign and LABELS not in self.reads

    def on(self, view: TrainingView) -> SimilarityRows:
        """Bind the relation to `view`, ready to be asked for rows."""
        if self.label_free:
            compute = view.once(self, lambda: self.prepare(view), self.reads)
        else:
            compute = self.prepare(view)
        row_by_row = self.row_by_row and not self.foreign  # which may have inherited it
        return SimilarityRows(
            compute,
            view.device,
            self.name,
            view.num_nodes,
            self.foreign,
            row_by_row,
            self.by_threads and not self.foreign,
            self.by_columns,
        )


@dataclass(frozen=True)
class SimilarityRows:
    """Rows of one relation, computed in tiles of a fixed height.

    A matrix product may round differently when its shape changes, and a last bit decides whether a
    pair at the threshold is above it. So every call of `compute` gets the same number of nodes, the
    last tile filled up with repetitions, and a row comes out the same whatever it is asked with.
    Where it would anyway, because it is made `row_by_row`, a GPU makes many more in a call, which
    costs it some hundred microseconds however few they are; and threads that divide the nodes of a
    call get a tile each.

    What a call gives is checked for its kind and shape; that of a `foreign` relation, which is not
    one of ours, also for its values, since a similarity outside [0, 1] would go wrong without a
    word.
    """

    compute: Rows
    device: torch.device
    name: str = "relation"
    num_nodes: int | None = None
    foreign: bool = False
    row_by_row: bool = False
    by_threads: bool = False
    by_columns: bool = False

    @property
    def tile(self) -> int:
        """Rows per call of `compute`, but for those made row by row."""
        usual = tile_rows(self.device)
        if not self.by_columns or self.device.type != "cpu":
            return usual
        half = usual // 2
        return half if half * (self.num_nodes or 1) <= IN_CACHE else half // 2

    def __call__(self, nodes: Tensor) -> Tensor:
        """Similarities [b, V] of `nodes` to all nodes."""
        tiles = [rows for _, rows in self.tiles(nodes)]
        return tiles[0] if len(tiles) == 1 else torch.cat(tiles)

    def tiles(self, nodes: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """The same, a few of the `nodes` at a time, each time with those few."""
        height, compute = self.tile, self._tile
        if self.device.type != "cpu" and self.row_by_row:
            height, compute = max(height, AT_ONCE // (self.num_nodes or 1)), self._checked
        elif self.device.type == "cpu" and self.by_threads:
            enough = max(height * torch.get_num_threads(), IN_CACHE // (self.num_nodes or 1))
            height, compute = enough, self._checked
        for part in torch.split(nodes.to(self.device), height):
            yield part, compute(part).contiguous()

    def _tile(self, nodes: Tensor) -> Tensor:
        missing = self.tile - len(nodes)
        if missing == 0:
            return self._checked(nodes)
        return self._checked(torch.cat([nodes, nodes[:1].expand(missing)]))[: len(nodes)]

    def _checked(self, nodes: Tensor) -> Tensor:
        found: object = self.compute(nodes)
        if not isinstance(found, Tensor) or not found.is_floating_point():
            kind = found.dtype if isinstance(found, Tensor) else type(found).__name__
            raise UsageError(
                f"Relation '{self.name}' must compute a torch Tensor of floats, not {kind}: "
                "end it with .float(), or torch.from_numpy(...) for an array."
            )
        width = found.shape[-1] if self.num_nodes is None and found.ndim else self.num_nodes
        if found.shape != (len(nodes), width):
            raise UsageError(
                f"Relation '{self.name}' must compute one row per node asked for and one column "
                f"per node of the graph, here {[len(nodes), width]}, but gave {list(found.shape)}."
            )
        return self._in_range(found, nodes) if self.foreign else found

    def _in_range(self, found: Tensor, nodes: Tensor) -> Tensor:
        wrong = ~((found >= 0) & (found <= 1 + TOLERANCE))  # NaN is neither
        if wrong.any():
            row, column = wrong.nonzero()[0].tolist()
            raise UsageError(
                f"Relation '{self.name}' must compute similarities in [0, 1], but nodes "
                f"{int(nodes[row])} and {column} have {found[row, column].item():.7g}: scale it."
            )
        return found.detach().clamp(max=1).to(self.device, torch.float32)


def path_of_four() -> TrainingView:
    """The path 0 - 1 - 2 - 3 with two attributes; the labels of all but node 3 are known."""
    graph = Graph.from_arrays(
        attributes=[[1.0, 0.0], [1.0, 1.0], [0.0, 1.0], [0.0, 2.0]],
        edges=[[0, 1, 2], [1, 2, 3]],
        labels=[0, 1, 0, 1],
        name="path of four",
    )
    return TrainingView.of(graph, labelled=[0, 1, 2])


def rows(relation: Relation, view: TrainingView, nodes: Sequence[int]) -> list[list[float]]:
    """Similarities of `nodes` to all nodes, rounded to three digits."""
    block = relation.on(view)(torch.tensor(nodes))
    return [[round(value, 3) for value in row] for row in block.tolist()]
