"""Plain settings as TOML text; reading is the standard library's business."""

from __future__ import annotations

import json
from collections.abc import Mapping


def to_toml(tables: Mapping[str, Mapping[str, object]]) -> str:
    """One `[table]` for each entry.

    None has no form in TOML: a setting that is None is left out, an item of a list is "none".
    """
    parts = []
    for name, table in tables.items():
        lines = [f"{key} = {_value(v)}" for key, v in table.items() if v is not None]
        parts.append("\n".join([f"[{name}]", *lines]))
    return "\n\n".join(parts) + "\n"


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_value(item) for item in value) + "]"
    if isinstance(value, Mapping):
        known = (f"{key} = {_value(item)}" for key, item in value.items() if item is not None)
        return "{" + ", ".join(known) + "}"
    if value is None:
        return '"none"'
    # Of the characters that TOML wants escaped, JSON leaves this one as it is.
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
