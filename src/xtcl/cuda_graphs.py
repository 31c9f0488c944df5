"""CUDA graphs: kernels that are captured once and then launched all together.

Launching many small kernels takes the CPU longer than running them takes the GPU. A captured piece
of work must launch the same kernels every time: no shape may depend on a random draw, nothing may
be read back, and its inputs and outputs keep their places in memory.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from xtcl.device import release_cached

TrainingStep = Callable[[Tensor], Tensor]
"""A training step: takes its anchors and returns its loss."""


WARM_UP = 2
"""Steps that run without a graph first, in which libraries allocate what they need."""


class _Captured(NamedTuple):
    graph: torch.cuda.CUDAGraph
    anchors: Tensor
    loss: Tensor


class GraphedStep:
    """A training step that is captured, once for each number of anchors, and then replayed.

    A step has more than a hundred small kernels; launching them takes the CPU three times as long
    as running them takes the GPU. Draws continue from `generator` as they would without a graph.
    To be called within `side_stream`.
    """

    def __init__(self, step: TrainingStep, generator: torch.Generator) -> None:
        self._step = step
        self._generator = generator
        self._taken: Counter[int] = Counter()
        self._captured: dict[int, _Captured | None] = {}
        self._capturer = GraphCapture()

    def __call__(self, anchors: Tensor) -> Tensor:
        """Take a step."""
        number = len(anchors)
        self._taken[number] += 1
        if self._taken[number] <= WARM_UP:
            return self._step(anchors)
        if number not in self._captured:
            self._captured[number] = self._capture(anchors)
        captured = self._captured[number]
        if captured is None:
            return self._step(anchors)
        captured.anchors.copy_(anchors)
        captured.graph.replay()
        return captured.loss.clone()

    def _capture(self, anchors: Tensor) -> _Captured | None:
        """The captured step; None where there is no memory for it, beside that of other steps."""
        own = anchors.clone()
        try:
            graph, loss = self._capturer.record(lambda: self._step(own), self._generator)
        except torch.OutOfMemoryError:
            return None
        return _Captured(graph, own, loss)


Result = TypeVar("Result")


class GraphCapture:
    """Captures pieces of work that share one pool of memory, so only one may run at a time."""

    def __init__(self) -> None:
        self._last: torch.cuda.CUDAGraph | None = None

    def record(
        self, work: Callable[[], Result], generator: torch.Generator | None = None
    ) -> tuple[torch.cuda.CUDAGraph, Result]:
        """The graph, to be replayed, and the tensors that a replay writes its result to.

        The work is captured, not run. It must have run before in the same stream, so that libraries
        have allocated what they need. Draws continue from `generator` as they would without a
        graph.
        """
        graph = torch.cuda.CUDAGraph()
        if generator is not None:
            graph.register_generator_state(generator)
        release_cached()
        # Not `with torch.cuda.graph`: it gives memory back also where there is plenty.
        pool = self._last.pool() if self._last else None
        # Other threads, such as those that monitor ranks, may use CUDA meanwhile.
        graph.capture_begin(pool=pool, capture_error_mode="thread_local")
        try:
            result = work()
        except BaseException:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about an empty graph
                graph.capture_end()
            raise
        graph.capture_end()
        self._last = graph
        return graph, result


@contextmanager
def side_stream(device: torch.device) -> Iterator[None]:
    """Run the block in a stream of its own, as a capture demands; always the same one."""
    before, stream = torch.cuda.current_stream(device), _stream(device)
    stream.wait_stream(before)
    try:
        with torch.cuda.stream(stream):
            yield
    finally:
        before.wait_stream(stream)


@cache
def _stream(device: torch.device) -> torch.cuda.Stream:
    # One for each device: libraries keep memory for every stream.
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
