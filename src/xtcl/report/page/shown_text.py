"""Texts of the user's (ids, classes, names) as a page can show them."""

from __future__ import annotations

import unicodedata

LONGEST = 80
"""Characters of an id that are shown; the beginning tells most ids apart."""
OVERRIDES = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def shown(value: object) -> str:
    """The text without what a page cannot show, cut where it is very long. Escaping comes later."""
    text = str(value)
    if len(text) > LONGEST:
        text = text[: LONGEST - 1] + "…"
    return "".join("\ufffd" if _unfit(c) else c for c in text)


def _unfit(character: str) -> bool:
    """Control characters have no picture, half a surrogate pair cannot be written as UTF-8.

    Overrides of direction would show another id than the one that is there.
    """
    return unicodedata.category(character) in ("Cc", "Cs") or character in OVERRIDES
