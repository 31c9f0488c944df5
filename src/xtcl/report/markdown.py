"""Tables in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

DASH = "–"  # noqa: RUF001
"""What a cell without a figure holds."""


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table with a head."""
    ruler = ["---"] * len(head)
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [head, ruler, *rows])


def spread(mean: float, error: float | None, sign: str = "") -> str:
    """A mean with its standard error, which a single run does not have."""
    return f"{mean:{sign}.2f}" if error is None else f"{mean:{sign}.2f} ± {error:.2f}"


def page(parts: Iterable[str]) -> str:
    """Paragraphs, tables and lists under each other; those that are empty are left out."""
    return "\n\n".join(part for part in parts if part) + "\n"
