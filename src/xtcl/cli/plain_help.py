"""Help that is short: flags take no value, and none is shown beside them."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand, TyperGroup


class PlainCommand(TyperCommand):
    """A command whose help leaves the type of flags away."""

    def get_params(self, ctx: Any) -> Any:
        """The parameters, with `--help`."""
        return _without_types(super().get_params(ctx))


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
