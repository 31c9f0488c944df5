"""What the commands print: errors as sentences, tables, and progress on standard error."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, ParamSpec

import typer
from rich.console import Console
from rich.table import Table

from xtcl.errors import BudgetError, XTCLError, is_out_of_memory
from xtcl.progress import Advance, LogLines, Progress, TerminalBars

if TYPE_CHECKING:
    from xtcl.sampling.weights import RelationWeight

INTERRUPTED = 130
_NO_MEMORY = (
    "There was not enough memory. `xtcl fit ... --dry-run` prints what a fit needs; with a budget, "
    "--memory 8GB, or in top-k mode, --cap 32, it needs less."
)
_P = ParamSpec("_P")


def reported(command: Callable[_P, None]) -> Callable[_P, None]:
    """Turn expected errors into a sentence and an exit code; any other is a bug and is raised."""

    @functools.wraps(command)
    def run(*args: _P.args, **kwargs: _P.kwargs) -> None:
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
            if not is_out_of_memory(error):
                raise
            typer.echo(f"Error: {_NO_MEMORY}", err=True)
            raise typer.Exit(BudgetError.exit_code) from None

    return run


def print_warning(message: Warning | str, *place: object, **where: object) -> None:
    """A warning as a sentence, without the line of code that it came from."""
    typer.echo(f"Warning: {message}", err=True)


def printable(text: str) -> str:
    """The text, with control characters escaped."""
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
    """The fitted weights of the sampler, in training order."""
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


class Bars(Progress):
    """Bars on a terminal, lines where standard error goes elsewhere; nothing on a quiet console.

    Freed memory goes back to the system before and after each stage. Only the command line does
    this: the library leaves the allocator of its caller alone.
    """

    def __init__(self, console: Console) -> None:
        self.console = console

    @contextmanager
    def stage(self, name: str, steps: int) -> Iterator[Advance]:
        """Show how far the stage is while it lasts."""
        from xtcl.device import trim_heap  # imports torch

        trim_heap()
        with self._shown().stage(name, steps) as advance:
            yield advance
        trim_heap()

    def _shown(self) -> Progress:
        if self.console.quiet:
            return Progress()
        return TerminalBars(self.console) if self.console.is_terminal else LogLines()
