"""Progress bars on standard error."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, ParamSpec

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress
from rich.table import Table

from xtcl.errors import BudgetError, XTCLError
from xtcl.progress import Advance, Progress

if TYPE_CHECKING:
    from xtcl.sampling.xgsampler import RelationWeight


class Bars(Progress):
    """One bar a stage, with the time left; nothing where standard error is not a terminal.

    Freed memory goes back to the system before and after each stage. Only the command line does
    this: the library leaves the allocator of its caller alone.
    """

    def __init__(self, console: Console, prefix: str = "") -> None:
        self.console = console
        self.prefix = prefix

    @contextmanager
    def stage(self, name: str, steps: int) -> Iterator[Advance]:
        """Show a bar while the stage lasts."""
        from xtcl.device import trim_heap  # imports torch

        trim_heap()
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
        trim_heap()


P = ParamSpec("P")


INTERRUPTED = 130


NO_MEMORY = (
    "There was not enough memory. `xtcl fit ... --dry-run` says what a fit takes; with a budget, "
    "--memory 8GB, or in top-k mode, --cap 32, it takes less."
)


def print_warning(message: Warning | str, *place: object, **where: object) -> None:
    """A warning as a sentence, without the line of code that it came from."""
    typer.echo(f"Warning: {message}", err=True)


def reported(command: Callable[P, None]) -> Callable[P, None]:
    """Turn the errors a user can meet into a sentence and an exit code; others stay bugs."""

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except XTCLError as error:
            typer.echo(f"Error: {error}", err=True)
            raise typer.Exit(error.exit_code) from None
        except KeyboardInterrupt:
            typer.echo("Interrupted.", err=True)
            raise typer.Exit(INTERRUPTED) from None
        except OSError as error:
            place = f" ('{error.filename}')" if error.filename else ""
            typer.echo(f"Error: {error.strerror or error}{place}.", err=True)
            raise typer.Exit(3) from None
        except (MemoryError, RuntimeError) as error:
            if not _out_of_memory(error):
                raise
            typer.echo(f"Error: {NO_MEMORY}", err=True)
            raise typer.Exit(BudgetError.exit_code) from None

    return run


def _out_of_memory(error: MemoryError | RuntimeError) -> bool:
    """Torch has an error of its own for a GPU; on a CPU it only says so."""
    told = str(error)
    return isinstance(error, MemoryError) or "out of memory" in told or "allocate memory" in told


def printable(text: str) -> str:
    """The text, with what a terminal would obey written out."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def plain_table(*columns: str, numbers: Sequence[str] = ()) -> Table:
    """A table without a frame; the columns named in `numbers` are set flush right."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(
            column,
            justify="right" if column in numbers else "left",
            no_wrap=column in columns[:1],  # names must be readable to the last letter
        )
    return table


def weights_table(weights: Sequence[RelationWeight]) -> Table:
    """What the sampler learned, in training order."""
    from xtcl.relations.registry import relation_title  # imports torch

    numbers = ("order", "precision", "support", "w0", "w1", "importance")
    table = plain_table("relation", *numbers, numbers=numbers)
    for w in weights:
        table.add_row(
            relation_title(w.relation),
            str(w.order),
            f"{w.precision:.3f}",
            str(w.support),
            f"{w.w0:+.2f}",
            f"{w.w1:+.2f}",
            f"{w.importance:.2f}",
        )
    return table
