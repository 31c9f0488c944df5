"""How errors and warnings leave the command line: sentences on standard error, exit codes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec

import typer

from xtcl.errors import BudgetError, XTCLError

P = ParamSpec("P")
INTERRUPTED = 130
NO_MEMORY = (
    "There was not enough memory. `xtcl fit ... --dry-run` says what a fit takes; with a budget, "
    "--memory 8GB, or in top-k mode, --cap 32, it takes less."
)


def tell_warning(message: Warning | str, *place: object, **where: object) -> None:
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
