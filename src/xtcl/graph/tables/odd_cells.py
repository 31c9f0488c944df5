"""Cells that do not belong into their column: a word among numbers, a formula, a decimal comma."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from xtcl.errors import DataError
from xtcl.graph.tables.table import Table, place

if TYPE_CHECKING:
    from xtcl.graph.tables.profile import Profile

NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"
DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+")
NEARLY_ALL = 0.95
"""Share of numbers among the values of a column from which on the others are taken for slips."""
ENOUGH_TO_JUDGE = 20
LONGEST = 40


def count_numbers(cells: Any) -> int:
    """How many of the text cells are numbers."""
    return int(pc.sum(pc.match_substring_regex(cells, NUMBER)).as_py() or 0)


def first_formula(cells: Any) -> int | None:
    """The place of the first text cell that begins as a formula does."""
    at = pc.index(pc.starts_with(cells, "="), True).as_py()
    return None if at < 0 else int(at)


def doubt_about(profile: Profile, table: Table) -> str:
    """A sentence about the first such cell, with a remedy; empty where there is none.

    A formula among numbers has no value that could be read, and is refused.
    """
    if profile.first_text is None or profile.categorical:
        return ""
    row, text = profile.first_text
    what = f"{place(table, row)}: column {profile.name!r} is {text[:LONGEST]!r}"
    if profile.present >= ENOUGH_TO_JUDGE and profile.numbers >= NEARLY_ALL * profile.present:
        among = f"where {profile.numbers:,} of {profile.present:,} values are numbers"
        if text.startswith("="):
            raise DataError(
                f"{what}, a formula, {among}; write its value, or leave the cell empty."
            )
        return (
            f"{what}, {among}, so that all of them are read as names. Correct the cell or leave it "
            "empty; for names, list the column under categorical in a TOML file."
        )
    if DECIMAL_COMMA.fullmatch(text):
        return f"{what}, a number with a decimal comma, which is read as a name. Write a point."
    if profile.first_formula is not None:
        row, text = profile.first_formula
        return (
            f"{place(table, row)}: column {profile.name!r} is {text[:LONGEST]!r}, which looks like "
            "a formula and is read as a name. If it is one, write its value."
        )
    return ""
