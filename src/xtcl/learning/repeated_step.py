"""Training steps that a GPU repeats by itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor

Step = Callable[[Tensor], Tensor]
"""Takes the anchors of a step, gives its loss."""

WARM_UP = 2
"""Steps taken one by one first, in which libraries make what they need."""


class _Recorded(NamedTuple):
    graph: torch.cuda.CUDAGraph
    anchors: Tensor
    loss: Tensor


class RepeatedStep:
    """A step that is recorded, once for each number of anchors, and then replayed (CUDA graph).

    A step is more than a hundred small kernels, and launching them takes the CPU three times as
    long as running them takes the GPU. What is recorded must launch the same kernels every time:
    no shape may depend on chance, and nothing may be read back. Draws go on from `generator` as if
    the step were taken one by one.
    """

    def __init__(self, step: Step, generator: torch.Generator) -> None:
        self._step = step
        self._generator = generator
        self._taken: Counter[int] = Counter()
        self._recorded: dict[int, _Recorded] = {}
        self._pool = torch.cuda.graph_pool_handle()

    def __call__(self, anchors: Tensor) -> Tensor:
        """Take a step."""
        number = len(anchors)
        self._taken[number] += 1
        if self._taken[number] <= WARM_UP:
            return self._step(anchors)
        if number not in self._recorded:
            self._recorded[number] = self._record(anchors.clone())
        recorded = self._recorded[number]
        recorded.anchors.copy_(anchors)
        recorded.graph.replay()
        return recorded.loss.clone()

    def _record(self, anchors: Tensor) -> _Recorded:
        graph = torch.cuda.CUDAGraph()
        graph.register_generator_state(self._generator)
        # Not `with torch.cuda.graph`: it would give all free memory back first.
        graph.capture_begin(pool=self._pool)
        try:
            loss = self._step(anchors)
        finally:
            graph.capture_end()
        return _Recorded(graph, anchors, loss)


@contextmanager
def own_stream(device: torch.device) -> Iterator[None]:
    """What is inside runs in a stream of its own, as recording demands."""
    before = torch.cuda.current_stream(device)
    stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    stream.wait_stream(before)
    try:
        with torch.cuda.stream(stream):
            yield
    finally:
        before.wait_stream(stream)
