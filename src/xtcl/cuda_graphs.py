"""Training steps that a GPU repeats by itself."""

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

Step = Callable[[Tensor], Tensor]
"""Takes the anchors of a step, gives its loss."""


WARM_UP = 2
"""Steps taken one by one first, in which libraries make what they need."""


class _Captured(NamedTuple):
    graph: torch.cuda.CUDAGraph
    anchors: Tensor
    loss: Tensor


class GraphedStep:
    """A step that is recorded, once for each number of anchors, and then replayed.

    A step is more than a hundred small kernels, and launching them takes the CPU three times as
    long as running them takes the GPU. Draws go on from `generator` as if the step were taken one
    by one. To be called within `side_stream`.
    """

    def __init__(self, step: Step, generator: torch.Generator) -> None:
        self._step = step
        self._generator = generator
        self._taken: Counter[int] = Counter()
        self._recorded: dict[int, _Captured | None] = {}
        self._recorder = GraphCapture()

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

    def _record(self, anchors: Tensor) -> _Captured | None:
        """A recording has memory of its own; where there is none, steps go on one by one."""
        own = anchors.clone()
        try:
            graph, loss = self._recorder.record(lambda: self._step(own), self._generator)
        except torch.OutOfMemoryError:
            return None
        return _Captured(graph, own, loss)


# Work that a GPU repeats by itself (CUDA graphs).
#
# Many small kernels take the CPU longer to launch than the GPU to run. Recorded once, they are all
# launched together. What is recorded must launch the same kernels every time: no shape may depend
# on
# chance, nothing may be read back, and what it reads and changes stays where it is.


Result = TypeVar("Result")


class GraphCapture:
    """Records pieces of work that share memory for what they need in between.

    Of one recorder, only one piece may run at a time.
    """

    def __init__(self) -> None:
        self._last: torch.cuda.CUDAGraph | None = None

    def record(
        self, work: Callable[[], Result], generator: torch.Generator | None = None
    ) -> tuple[torch.cuda.CUDAGraph, Result]:
        """The recording, to be replayed, and where it leaves its result.

        Nothing is done yet. The work has been done by hand before, in the same stream, so that
        libraries have made what they need. Draws go on from `generator` as they would by hand.
        """
        graph = torch.cuda.CUDAGraph()
        if generator is not None:
            graph.register_generator_state(generator)
        release_cached()
        # Not `with torch.cuda.graph`: it would give memory back whether or not it is short.
        pool = self._last.pool() if self._last else None
        # Threads of others, such as those that watch ranks, may go on with what they do.
        graph.capture_begin(pool=pool, capture_error_mode="thread_local")
        try:
            result = work()
        except BaseException:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of a recording that holds nothing
                graph.capture_end()
            raise
        graph.capture_end()
        self._last = graph
        return graph, result


@contextmanager
def side_stream(device: torch.device) -> Iterator[None]:
    """What is inside runs in a stream of its own, as recording demands; always the same one."""
    before, stream = torch.cuda.current_stream(device), _own(device)
    stream.wait_stream(before)
    try:
        with torch.cuda.stream(stream):
            yield
    finally:
        before.wait_stream(stream)


@cache
def _own(device: torch.device) -> torch.cuda.Stream:
    # Libraries keep memory for every stream they have seen.
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
