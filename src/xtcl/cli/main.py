"""The `xtcl` command."""

from __future__ import annotations

import sys
import warnings
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

import xtcl
from xtcl.cli.answers import embed, explain, links, predict, report
from xtcl.cli.check import check
from xtcl.cli.console import INTERRUPTED, print_warning
from xtcl.cli.evaluate import evaluate, reproduce, tune
from xtcl.cli.fit import fit
from xtcl.cli.listings import datasets, doctor, methods, recipe, relations


class PlainCommand(TyperCommand):
    """A command whose help shows no type for flags."""

    def get_params(self, ctx: Any) -> Any:
        """The parameters, with `--help`."""
        return _without_types(super().get_params(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        """Read the arguments. A node's id that starts with `-` is read as an option: add a hint."""
        given = list(args)
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            usage: Any = error  # click's UsageError; not every version of typer installs click
            unknown = getattr(usage, "option_name", "--")
            takes_node = any(parameter.name == "node" for parameter in self.params)
            if takes_node and not unknown.startswith("--"):
                name = next((word for word in given if word.startswith(unknown)), unknown)
                hint = f"For the node with that id write: -- {name}"
                usage.message = f"{usage.message.rstrip('.')}. {hint}"
            raise


class PlainGroup(TyperGroup):
    """The same for the group of commands."""

    def get_params(self, ctx: Any) -> Any:
        """The parameters, with `--help`."""
        return _without_types(super().get_params(ctx))


def _without_types(parameters: list[Any]) -> list[Any]:
    for parameter in parameters:
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""
    return parameters


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
    *(evaluate, tune, reproduce, datasets, relations, methods, recipe, doctor),
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
    warnings.showwarning = print_warning
    try:
        app()
    except KeyboardInterrupt:  # outside of a command: those report their own
        typer.echo("Interrupted.", err=True)
        sys.exit(INTERRUPTED)
