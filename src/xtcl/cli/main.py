"""The `xtcl` command."""

from __future__ import annotations

import sys
import warnings
from typing import Annotated

import typer

import xtcl
from xtcl.cli.check import check
from xtcl.cli.embed import embed
from xtcl.cli.errors import INTERRUPTED, tell_warning
from xtcl.cli.evaluate import evaluate
from xtcl.cli.explain import explain
from xtcl.cli.fit import fit
from xtcl.cli.links import links
from xtcl.cli.listings import datasets, doctor, methods, relations
from xtcl.cli.plain_help import PlainCommand, PlainGroup
from xtcl.cli.predict import predict
from xtcl.cli.report import report
from xtcl.cli.reproduce import reproduce
from xtcl.cli.tune import tune

app = typer.Typer(
    name="xtcl",
    cls=PlainGroup,
    help="Task-aware node embeddings that say which graph signals mattered.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
COMMANDS = (
    *(fit, check, predict, embed, links, explain, report),
    *(evaluate, tune, reproduce, datasets, relations, methods, doctor),
)
for command in COMMANDS:
    app.command(cls=PlainCommand)(command)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(xtcl.__version__)
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Task-aware node embeddings that say which graph signals mattered."""


def main() -> None:
    """Run the command line."""
    warnings.showwarning = tell_warning
    try:
        app()
    except KeyboardInterrupt:  # outside of a command: those report their own
        typer.echo("Interrupted.", err=True)
        sys.exit(INTERRUPTED)
