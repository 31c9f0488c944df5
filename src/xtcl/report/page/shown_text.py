"""Texts of the user's (ids, classes, names) as a page can show them."""

from __future__ import annotations

import unicodedata

LONGEST = 80
"""Characters of an id that are shown; the beginning tells most ids apart."""


def shown(value: object) -> str:
    """The text without what a page cannot show, cut where it is very long. Escaping comes later."""
    text = str(value)
    if len(text) > LONGEST:
        text = text[: LONGEST - 1] + "…"
    # Half a surrogate pair cannot be written as UTF-8, and control characters have no picture.
    return "".join("\ufffd" if unicodedata.category(c) in ("Cc", "Cs") else c for c in text)
