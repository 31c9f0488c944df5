"""Work inside a stage of the sampler that is kept when the stage is interrupted.

Counts are kept fold by fold, positives in blocks of nodes. What is read again is the same as what
would be computed again, so a resumed fit has the result of an uninterrupted one, to the byte. With
several ranks nothing is kept inside a stage, because shares depend on the number of ranks.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Protocol

import torch
from torch import Tensor

from xtcl.distributed import world
from xtcl.sampling.candidates import TopB
from xtcl.sampling.patterns import PatternCounts

SAVE_SECONDS = 30.0
"""Positives are written at most once in so many seconds, and when the work is interrupted."""


class TensorFiles(Protocol):
    """Named sets of tensors on disk, as `xtcl.training.checkpoint.Checkpoints` has them."""

    def load(self, name: str) -> dict[str, Tensor] | None:
        """The tensors saved as `name`, or None."""

    def save(self, name: str, tensors: Mapping[str, Tensor]) -> None:
        """Save `tensors` as `name`, in place of earlier ones."""


def of_one_process(files: TensorFiles | None) -> TensorFiles | None:
    """`files`, or None where several ranks share the work."""
    return files if world().world_size == 1 else None


def load_counts(files: TensorFiles | None, fold: int) -> PatternCounts | None:
    """The table of a fold that was counted before; None where it was not."""
    saved = None if files is None else files.load(f"counts-{fold}")
    return None if saved is None else PatternCounts(saved["codes"].numpy(), saved["counts"].numpy())


def save_counts(files: TensorFiles | None, fold: int, table: PatternCounts) -> None:
    """Keep the table of a fold: a few thousand integers."""
    if files is not None:
        arrays = {"codes": table.codes, "counts": table.counts}
        files.save(f"counts-{fold}", {key: torch.from_numpy(each) for key, each in arrays.items()})


class PartialPositives:
    """The positives of the first nodes, in blocks, as far as they are found.

    A file has the blocks since the one before, and the number of its first node in its name. So a
    file that is written twice, or left over, is never taken for another.
    """

    def __init__(self, files: TensorFiles | None, num_nodes: int, number: int) -> None:
        self.num_nodes, self.number = num_nodes, number
        self._files = files
        self._blocks = [TopB(torch.zeros(0, number, dtype=torch.int64), torch.zeros(0, number))]
        while (block := self._load()) is not None:
            self._blocks.append(block)
        self._saved = len(self._blocks)
        self._last = time.monotonic()

    @property
    def num_found(self) -> int:
        """How many nodes have their positives."""
        return sum(len(block.nodes) for block in self._blocks)

    def add(self, block: TopB) -> None:
        """The positives of the next nodes."""
        self._blocks.append(block)
        if time.monotonic() - self._last >= SAVE_SECONDS:
            self._save()
            self._last = time.monotonic()

    @contextmanager
    def saved_on_error(self) -> Iterator[None]:
        """Save what was found when something ends the work, most likely the user."""
        try:
            yield
        except BaseException:
            with suppress(OSError):  # a full disk must not hide what ended the work
                self._save()
            raise

    def joined(self) -> TopB:
        """All blocks, on the CPU."""
        nodes, scores = zip(*self._blocks, strict=True)
        return TopB(_joined(nodes), _joined(scores))

    def _load(self) -> TopB | None:
        first = self.num_found
        saved = None if self._files is None else self._files.load(f"positives-from-{first}")
        if saved is None or saved["nodes"].shape[1] != self.number:
            return None
        # The last node is always done again: what the search notes about itself is not kept.
        most = self.num_nodes - 1 - first
        return TopB(saved["nodes"][:most], saved["scores"][:most]) if most else None

    def _save(self) -> None:
        new = self._blocks[self._saved :]
        if self._files is None or not new:
            return
        first = sum(len(block.nodes) for block in self._blocks[: self._saved])
        nodes, scores = zip(*new, strict=True)
        self._files.save(
            f"positives-from-{first}", {"nodes": _joined(nodes), "scores": _joined(scores)}
        )
        self._saved += len(new)


def _joined(parts: tuple[Tensor, ...]) -> Tensor:
    """Parts one below the other; those of a GPU are fetched together."""
    on_cpu = [part for part in parts if part.is_cpu]
    others = [part for part in parts if not part.is_cpu]  # found after what was read from files
    return torch.cat([*on_cpu, *([torch.cat(others).cpu()] if others else [])])
