"""The above pairs of one relation, row by row."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from xtcl.errors import UsageError
from xtcl.relations.level_lists import LevelLists
from xtcl.relations.sparse import row_entries


@dataclass(frozen=True)
class AboveRows:
    """For the nodes u = first, first + 1, ... the nodes v they are above with, in CSR form.

    O(m) memory for m pairs, where the dense form takes V for every row.
    """

    first: int
    start: np.ndarray  # int64 [n + 1]: where each node's row begins
    nodes: np.ndarray  # int64 [m], rising within a row
    similarities: np.ndarray  # float32 [m]
    levels: np.ndarray  # uint8 [m]: how many thresholds are reached, 1 or more

    @property
    def end(self) -> int:
        """The node after the last one."""
        return self.first + len(self.start) - 1

    @property
    def sources(self) -> np.ndarray:
        """The node u of every pair, as `nodes` are its v."""
        return np.repeat(np.arange(self.first, self.end), np.diff(self.start))

    @classmethod
    def of_block(cls, nodes: Tensor, similarities: Tensor, levels: Tensor) -> AboveRows:
        """From dense blocks [b, V] of rising `nodes`; nodes left out between them get no pairs."""
        place, partner = torch.nonzero(levels, as_tuple=True)
        lengths = torch.bincount(place, minlength=len(nodes))
        where = place, partner
        return cls.of_lists(nodes, lengths, partner, similarities[where], levels[where])

    @classmethod
    def of_lists(
        cls, nodes: Tensor, lengths: Tensor, partners: Tensor, similarities: Tensor, levels: Tensor
    ) -> AboveRows:
        """From the lists of rising `nodes`, of `lengths` [b] and one after the other."""
        asked = nodes.cpu().numpy()
        spread = np.zeros(asked[-1] - asked[0] + 1, dtype=np.int64)
        spread[asked - asked[0]] = lengths.cpu().numpy()
        values = (part.cpu().numpy() for part in (partners, similarities, levels))
        return cls(int(asked[0]), _starts(spread), *values)

    @classmethod
    def empty(cls, first: int, end: int) -> AboveRows:
        """Rows of the nodes from `first` to before `end` without any pair."""
        return cls(
            first,
            np.zeros(end - first + 1, dtype=np.int64),
            np.zeros(0, dtype=np.int64),
            np.zeros(0, dtype=np.float32),
            np.zeros(0, dtype=np.uint8),
        )

    @classmethod
    def concatenate(cls, parts: Sequence[AboveRows]) -> AboveRows:
        """Rows that follow each other as one."""
        for before, after in itertools.pairwise(parts):
            if before.end != after.first:
                raise UsageError(
                    f"Rows that end before node {before.end} cannot be followed by those from "
                    f"node {after.first}: give them in order and without a gap."
                )
        return cls(
            parts[0].first,
            _starts(np.concatenate([np.diff(part.start) for part in parts])),
            np.concatenate([part.nodes for part in parts]),
            np.concatenate([part.similarities for part in parts]),
            np.concatenate([part.levels for part in parts]),
        )

    def between(self, first: int, end: int) -> AboveRows:
        """The rows of the nodes from `first` to before `end`."""
        start = self.start[first - self.first : end - self.first + 1]
        pairs = slice(start[0], start[-1])
        return AboveRows(
            first,
            start - start[0],
            self.nodes[pairs],
            self.similarities[pairs],
            self.levels[pairs],
        )

    def lists(self, nodes: Tensor) -> LevelLists:
        """The rows of `nodes`, which are among them, on their device. O(1) a pair."""
        start = torch.from_numpy(self.start).to(nodes.device)
        row, entry = row_entries(start, nodes - self.first)
        partner, level = (
            torch.from_numpy(part).to(nodes.device)[entry] for part in (self.nodes, self.levels)
        )
        return LevelLists(row, partner, level)

    def level_block(self, nodes: Tensor, num_nodes: int) -> Tensor:
        """Levels of `nodes`, which are among the rows, to all nodes: uint8 [b, V] on their device.

        O(b V) for the zeros and O(1) a pair.
        """
        row, partner, level = self.lists(nodes)
        block = torch.zeros(len(nodes), num_nodes, dtype=torch.uint8, device=nodes.device)
        block[row, partner] = level
        return block


def _starts(lengths: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
