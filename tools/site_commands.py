"""A hook of MkDocs: the page of commands is made from their help."""

from __future__ import annotations

import inspect
from typing import Any

import typer
from mkdocs.structure.pages import Page

from xtcl.cli.main import app

MARK = "<!-- commands -->"


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Put the commands in where the page has the mark."""
    return markdown.replace(MARK, commands()) if MARK in markdown else markdown


def commands() -> str:
    """A section for each command: what it does, an example, its options."""
    group: Any = typer.main.get_command(app)
    return "\n".join(_section(name, command) for name, command in group.commands.items())


def _section(name: str, command: Any) -> str:
    text = inspect.cleandoc(command.help or "")
    parts = [f"## xtcl {name}", ""]
    for paragraph in text.split("\n\n"):
        start, colon, example = paragraph.partition(": xtcl ")
        parts += [f"{start}: `xtcl {example}`" if colon else paragraph, ""]
    parts += ["| | | default |", "|---|---|---|"]
    for option in command.params:
        if getattr(option, "hidden", False):
            continue
        names = " ".join(option.opts) if option.param_type_name == "option" else option.metavar
        kept = getattr(option.default, "value", option.default)
        default = "" if kept is None or kept is False or kept == "" else f"`{kept}`"
        parts.append(f"| `{names}` | {option.help or ''} | {default} |")
    return "\n".join([*parts, ""])
