"""Progress of a fit: nothing, bars on a terminal, a display in a notebook, or lines of a log.

`Progress` itself shows nothing. `XTCL(verbose=True)` and the command line choose among the others
(`visible_progress`); by default there is a display in a notebook, and nothing elsewhere. rich and
IPython are imported when something is drawn.
"""

from __future__ import annotations

import sys
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol, TextIO

from xtcl.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console

Advance = Callable[[int], None]

LOG_SECONDS = 10.0
"""A log gets at most one line in so many seconds while a stage lasts."""
NOTEBOOK_SECONDS = 0.25
"""So often the display of a notebook changes."""
BAR_WIDTH = 30


class Progress:
    """Receives stages of work and the steps done in each."""

    @contextmanager
    def stage(self, name: str, steps: int) -> Iterator[Advance]:
        """A stage of `steps` steps; call what it yields with the number of steps just done."""
        yield lambda done: None


class PrefixedProgress(Progress):
    """Stages of `listener` whose names begin with `prefix`."""

    def __init__(self, listener: Progress, prefix: str) -> None:
        self.listener = listener
        self.prefix = prefix

    @contextmanager
    def stage(self, name: str, steps: int) -> Iterator[Advance]:
        """The stage under its longer name."""
        with self.listener.stage(self.prefix + name, steps) as advance:
            yield advance


class TerminalBars(Progress):
    """One bar a stage, with the time left, on standard error or on `console`."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console

    @contextmanager
    def stage(self, name: str, steps: int) -> Iterator[Advance]:
        """Show a bar while the stage lasts."""
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as RichProgress

        bars = RichProgress(
            TextColumn("{task.description:<44}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(elapsed_when_finished=True),
            console=self.console or Console(stderr=True),
        )
        with bars:
            bar = bars.add_task(name, total=steps)
            yield lambda done: bars.advance(bar, done)
            # Training may stop early: what was done by then is the whole.
            bars.update(bar, total=bars.tasks[0].completed)


class _Texts(Progress):
    """A text at the start and at the end of each stage, and one every `every` seconds."""

    every: float

    @abstractmethod
    def start_stage(self) -> Callable[[str, float], None]:
        """A function that shows the text of a new stage, of which this share is done."""

    @contextmanager
    def stage(self, name: str, steps: int) -> Iterator[Advance]:
        """Show the texts while the stage lasts."""
        show = self.start_stage()
        started = shown = time.monotonic()
        total = 0

        def advance(done: int) -> None:
            nonlocal total, shown
            total += done
            now = time.monotonic()
            if now - shown >= self.every and 0 < total < steps:
                shown = now
                left = _duration((now - started) * (steps - total) / total)
                show(f"{name}: {total:,} of {steps:,}, {left} left", total / steps)

        show(f"{name}: {steps:,} step{'s' if steps != 1 else ''}", 0.0)
        try:
            yield advance
        except BaseException:
            took = _duration(time.monotonic() - started)
            show(f"{name}: stopped at {total:,} of {steps:,} after {took}", total / max(steps, 1))
            raise
        # Training may stop early: what was done by then is the whole.
        early = f" after {total:,} of {steps:,}" if total < steps else ""
        show(f"{name}: done{early} in {_duration(time.monotonic() - started)}", 1.0)


class LogLines(_Texts):
    """Lines with the time of day, on standard error or on `stream`, for a log file."""

    def __init__(self, stream: TextIO | None = None, every: float = LOG_SECONDS) -> None:
        self.stream = stream
        self.every = every

    def start_stage(self) -> Callable[[str, float], None]:
        """A function that writes whole lines."""
        return self._write

    def _write(self, text: str, share: float) -> None:
        line = f"{datetime.now():%Y-%m-%d %H:%M:%S} {text}\n"  # one write: no other line gets in
        stream = self.stream or sys.stderr
        stream.write(line)
        stream.flush()


class NotebookBars(_Texts):
    """One text with a bar for each stage, under the cell of a notebook. It needs no widgets."""

    every = NOTEBOOK_SECONDS

    def start_stage(self) -> Callable[[str, float], None]:
        """A function that replaces the text of the stage."""
        from IPython.display import DisplayHandle

        handle: Any = DisplayHandle()  # type: ignore[no-untyped-call]
        send = handle.display  # the first text; later ones take its place

        def show(text: str, share: float) -> None:
            nonlocal send
            full = round(BAR_WIDTH * share)
            bar = "━" * full + " " * (BAR_WIDTH - full)
            send({"text/plain": f"{bar} {text}"}, raw=True)
            send = handle.update

        return show


def visible_progress() -> Progress:
    """What suits the place: a display in a notebook, bars on a terminal, lines in a log."""
    if in_notebook():
        return NotebookBars()
    return TerminalBars() if sys.stderr.isatty() else LogLines()


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None


class HasProgress(Protocol):
    """An estimator with the parameters `progress` and `verbose`."""

    progress: Progress | None
    verbose: bool | None


def check_progress(progress: object) -> None:
    """Refuse what has no stages."""
    if progress is not None and not callable(getattr(progress, "stage", None)):
        raise UsageError(
            f"progress={progress!r} must be a Progress; for a display, give verbose=True."
        )


def progress_of(model: HasProgress) -> Progress:
    """The progress that `model` was given, else the one for `verbose`, on the main rank."""
    if model.progress is not None:
        return model.progress
    if not (in_notebook() if model.verbose is None else model.verbose):
        return Progress()
    from xtcl.distributed import world  # imports torch

    return visible_progress() if world().is_main else Progress()


def _duration(seconds: float) -> str:
    """Seconds as '0.4 s', '12 s', '3 min 05 s' or '2 h 10 min'."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
