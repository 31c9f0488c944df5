"""Seconds and peak memory of every stage of a fit, taken from inside its process (Linux)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from xtcl.device import trim_heap
from xtcl.progress import Advance, Progress

RELATIONS, POSITIVES = "relations", "positives"
TRAINING, EMBEDDING, HEAD = "training", "embedding", "head"
STAGES = {"learning which relations matter": RELATIONS, "finding positives": POSITIVES}


@dataclass
class Taken:
    """What a stage took: by the clock, of the processor, and at its peak in all, in bytes."""

    seconds: float = 0.0
    cpu_seconds: float = 0.0
    peak: int = 0


@dataclass
class StageMeter(Progress):
    """Gives everything between two marks to the stage that ends with the second.

    What follows the last epoch of a training is the members' embedding, and what follows that, to
    the end of the fit, the joined embedding and the head.
    """

    taken: dict[str, Taken] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # forget the peak so far
        self._clock, self._cpu = time.perf_counter(), time.process_time()

    def mark(self, stage: str) -> None:
        """All since the last mark belongs to `stage`."""
        own = self.taken.setdefault(stage, Taken())
        own.seconds += time.perf_counter() - self._clock
        own.cpu_seconds += time.process_time() - self._cpu
        own.peak = max(own.peak, status_bytes("VmHWM"))
        self._begin()

    @contextmanager
    def stage(self, name: str, steps: int) -> Iterator[Advance]:
        """Note one stage of the fit; freed memory goes back before it, as in the command line."""
        trim_heap()
        if name in STAGES:
            yield lambda done: None
            self.mark(STAGES[name])
        else:
            yield lambda done: self.mark(TRAINING)
            self.mark(EMBEDDING)


def status_bytes(name: str) -> int:
    """A figure of /proc/self/status: VmRSS is the memory held now, VmHWM its peak."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))
