"""Progress bars on standard error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress

from xtcl.progress import Advance, Progress


class Bars(Progress):
    """One bar a stage, with the time left; nothing where standard error is not a terminal."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.prefix = ""

    @contextmanager
    def stage(self, name: str, steps: int) -> Iterator[Advance]:
        """Show a bar while the stage lasts."""
        bars = RichProgress(
            TextColumn("{task.description:<44}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(elapsed_when_finished=True),
            console=self.console,
            disable=not self.console.is_terminal,
        )
        with bars:
            bar = bars.add_task(self.prefix + name, total=steps)
            yield lambda done: bars.advance(bar, done)
            # Training may settle early: what was done then is all there was to do.
            bars.update(bar, total=bars.tasks[0].completed)
