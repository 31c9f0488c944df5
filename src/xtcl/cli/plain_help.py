"""Help that is short: flags take no value, and none is shown beside them. Ids are no options."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand, TyperGroup


class PlainCommand(TyperCommand):
    """A command whose help leaves the type of flags away."""

    def get_params(self, ctx: Any) -> Any:
        """The parameters, with `--help`."""
        return _without_types(super().get_params(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        """Read the arguments; one taken for an option may have been the id of a node."""
        given = list(args)
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            told: Any = error  # of click, which typer brings along or not, as its version is
            unknown = getattr(told, "option_name", "--")
            takes_node = any(parameter.name == "node" for parameter in self.params)
            if takes_node and not unknown.startswith("--"):
                name = next((word for word in given if word.startswith(unknown)), unknown)
                hint = f"For the node with that id write: -- {name}"
                told.message = f"{told.message.rstrip('.')}. {hint}"
            raise


class PlainGroup(TyperGroup):
    """The same for the command of commands."""

    def get_params(self, ctx: Any) -> Any:
        """The parameters, with `--help`."""
        return _without_types(super().get_params(ctx))


def _without_types(parameters: list[Any]) -> list[Any]:
    for parameter in parameters:
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""
    return parameters
