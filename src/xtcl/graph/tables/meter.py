"""How far the reading of tables is, told where there is enough to read to wait for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path

from xtcl.progress import Progress

MEGABYTE = 1 << 20
WORTH_TELLING = 8 * MEGABYTE
"""Less is read in about a second."""

BytesRead = Callable[[int], None]
"""Takes the number of bytes of a file that were read since it was called last."""


def untold(count: int) -> None:
    """For those who do not ask how far it is."""


@contextmanager
def meter(progress: Progress, passes: list[tuple[object, int]]) -> Iterator[BytesRead]:
    """A stage over tables that are read so many times each; frames are there already."""
    whole = sum(_size(source) * times for source, times in passes)
    if whole < WORTH_TELLING:
        yield untold
        return
    with progress.stage("reading tables (MB)", whole // MEGABYTE) as advance:
        done = 0

        def told(count: int) -> None:
            nonlocal done
            advance((done + count) // MEGABYTE - done // MEGABYTE)
            done += count

        yield told


def _size(source: object) -> int:
    if not isinstance(source, (str, PathLike)):
        return 0
    try:
        return Path(source).stat().st_size
    except (OSError, ValueError):  # the reader says what is wrong
        return 0
