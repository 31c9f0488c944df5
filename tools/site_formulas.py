"""Formulas and tables of docstrings as plain text: the site must work without a network.

A docstring has `.. math::` in front of a formula and `:math:` in front of a short one, and tables
between rules of `=`, as Sphinx reads them. Markdown would take underscores for emphasis and run the
lines of a table together.
"""

from __future__ import annotations

import re
import textwrap
from typing import Any

import griffe

FORMULA = re.compile(r"^( *)\.\. math::(.*\n(?:\1 +\S.*\n|\n(?=\1 +\S))*)", re.MULTILINE)
TABLE = re.compile(r"^( *=+(?: +=+)+\n)(?:.*\n)+?\1(?:.*\n)+?\1", re.MULTILINE)
SHORT = re.compile(r":math:(`[^`]+`)")


def readable(docstring: str) -> str:
    """The docstring with its formulas and tables in blocks of code."""

    def block(found: re.Match[str]) -> str:
        margin, text = found.groups()
        first, _, rest = text.partition("\n")
        lines = [first.strip(), *textwrap.dedent(rest).strip().splitlines()]
        written = "\n".join(margin + line.strip() for line in lines if line.strip())
        return f"{margin}```latex\n{written}\n{margin}```\n"

    def table(found: re.Match[str]) -> str:
        return f"```text\n{textwrap.dedent(found[0])}```\n"

    return SHORT.sub(r"\1", TABLE.sub(table, FORMULA.sub(block, docstring + "\n")))


class Formulas(griffe.Extension):
    """Makes the docstrings of all objects readable."""

    def on_instance(self, *, obj: griffe.Object, **others: Any) -> None:
        """An object was read."""
        if obj.docstring is not None:
            obj.docstring.value = readable(obj.docstring.value)
