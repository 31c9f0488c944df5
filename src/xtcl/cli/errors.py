"""How errors leave the command line: a sentence on standard error and an exit code."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec

import typer

from xtcl.errors import XTCLError

P = ParamSpec("P")
INTERRUPTED = 130


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

    return run
