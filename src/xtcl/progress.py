"""Progress of a fit. The base class shows nothing; the command line draws bars."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

Advance = Callable[[int], None]


class Progress:
    """Receives stages of work and the steps done in each."""

    @contextmanager
    def stage(self, name: str, steps: int) -> Iterator[Advance]:
        """A stage of `steps` steps; call what it yields with the number of steps just done."""
        yield lambda done: None
