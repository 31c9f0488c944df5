"""From what a column holds to what becomes of it: the rules of docs/tables.md."""

from __future__ import annotations

import math
from dataclasses import replace

from xtcl.errors import DataError
from xtcl.graph.tables.encoding import (
    CATEGORY,
    LEFT_OUT,
    NUMBER,
    PRESENCE,
    TRUTH,
    ColumnEncoding,
)
from xtcl.graph.tables.odd_cells import ENOUGH_TO_JUDGE, doubt_about
from xtcl.graph.tables.profile import LARGEST, Profile
from xtcl.graph.tables.table import Table, place

TRUE = frozenset({"true", "yes", "t", "y"})
FALSE = frozenset({"false", "no", "f", "n"})


def settle(profile: Profile, table: Table, *, scale: bool) -> ColumnEncoding:
    """The encoding of a column; refuses what nothing can be computed with."""
    return replace(_settled(profile, table, scale), doubt=doubt_about(profile, table))


def _settled(profile: Profile, table: Table, scale: bool) -> ColumnEncoding:
    if profile.unusable:
        return _left_out(
            profile,
            f"values of type {profile.type_name} are neither numbers nor names; turn them into one",
        )
    if not profile.present:
        return _left_out(profile, "it has no values")
    if not profile.numeric:
        return _of_texts(profile, table)
    if profile.first_extreme is not None:
        row, value = profile.first_extreme
        raise DataError(
            f"{place(table, row)}: column {profile.name!r} is {value}; numbers must be finite and "
            f"at most {LARGEST:.0e}. Leave the cell empty where the value is not known."
        )
    spread = math.sqrt(profile.squares / profile.present)
    if profile.low == profile.high or spread == 0:
        return _constant(profile, f"{profile.low:g}")
    if profile.counts_rows and profile.present >= ENOUGH_TO_JUDGE:
        return _left_out(profile, "it counts the rows, as an index does")
    if profile.zero_or_one:
        return ColumnEncoding(profile.name, TRUTH, fill=profile.mean, missing=profile.missing)
    return ColumnEncoding(
        profile.name,
        NUMBER,
        center=profile.mean if scale else 0.0,
        scale=spread if scale else 1.0,
        fill=profile.mean,
        missing=profile.missing,
    )


def _of_texts(profile: Profile, table: Table) -> ColumnEncoding:
    texts = profile.texts
    if texts is None:
        return _left_out(
            profile,
            f"it has more than {profile.limit} different texts{_first_text(profile, table)}, as "
            f"ids and free text have; for a category, raise max_categories in a TOML file",
        )
    if len(texts) == 1:
        return _constant(profile, next(iter(texts)))
    if profile.categorical:
        return _category(profile, texts)
    # With fewer values, a name for nearly every node may still be a category.
    own_names = 2 * len(texts) > profile.present >= ENOUGH_TO_JUDGE
    if own_names or len(texts) == profile.present:
        return _left_out(
            profile,
            f"it has {len(texts)} different texts in {profile.present} nodes"
            f"{_first_text(profile, table)}, as ids and free text have; for a category, name it "
            "under categorical",
        )
    if {text.lower() for text in texts} <= TRUE | FALSE:
        # How often each word occurs was not counted: a missing one lies halfway.
        return ColumnEncoding(profile.name, TRUTH, fill=0.5, missing=profile.missing)
    return _category(profile, texts)


def _category(profile: Profile, texts: set[str]) -> ColumnEncoding:
    return ColumnEncoding(
        profile.name, CATEGORY, categories=tuple(sorted(texts)), missing=profile.missing
    )


def _constant(profile: Profile, value: str) -> ColumnEncoding:
    if profile.missing:
        return ColumnEncoding(profile.name, PRESENCE, missing=profile.missing)
    return _left_out(profile, f"it is {value!r} throughout")


def _first_text(profile: Profile, table: Table) -> str:
    """The first text, which explains a column of numbers with a word in it."""
    if profile.first_text is None:
        return ""
    row, text = profile.first_text
    return f" (the first: {text[:40]!r} in {table.spot(row)})"


def _left_out(profile: Profile, why: str) -> ColumnEncoding:
    return ColumnEncoding(profile.name, LEFT_OUT, missing=profile.missing, why=why)
