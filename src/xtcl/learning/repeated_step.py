"""Training steps that a GPU repeats by itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from xtcl.recorded import Recorder

Step = Callable[[Tensor], Tensor]
"""Takes the anchors of a step, gives its loss."""

WARM_UP = 2
"""Steps taken one by one first, in which libraries make what they need."""


class _Recorded(NamedTuple):
    graph: torch.cuda.CUDAGraph
    anchors: Tensor
    loss: Tensor


class RepeatedStep:
    """A step that is recorded, once for each number of anchors, and then replayed.

    A step is more than a hundred small kernels, and launching them takes the CPU three times as
    long as running them takes the GPU. Draws go on from `generator` as if the step were taken one
    by one. To be called within `own_stream`.
    """

    def __init__(self, step: Step, generator: torch.Generator) -> None:
        self._step = step
        self._generator = generator
        self._taken: Counter[int] = Counter()
        self._recorded: dict[int, _Recorded | None] = {}
        self._recorder = Recorder()

    def __call__(self, anchors: Tensor) -> Tensor:
        """Take a step."""
        number = len(anchors)
        self._taken[number] += 1
        if self._taken[number] <= WARM_UP:
            return self._step(anchors)
        if number not in self._recorded:
            self._recorded[number] = self._record(anchors)
        recorded = self._recorded[number]
        if recorded is None:
            return self._step(anchors)
        recorded.anchors.copy_(anchors)
        recorded.graph.replay()
        return recorded.loss.clone()

    def _record(self, anchors: Tensor) -> _Recorded | None:
        """A recording has memory of its own; where there is none, steps go on one by one."""
        own = anchors.clone()
        try:
            graph, loss = self._recorder.record(lambda: self._step(own), self._generator)
        except torch.OutOfMemoryError:
            return None
        return _Recorded(graph, own, loss)
