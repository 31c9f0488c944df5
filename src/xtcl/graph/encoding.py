"""How the columns of a table became attributes: small, plain, and enough to encode new nodes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from xtcl.errors import DataError
from xtcl.renamed import COLUMN_KEYS

NUMBER, TRUTH, CATEGORY, PRESENCE, LEFT_OUT = "number", "truth", "category", "presence", "left out"
AS_ASKED = "as you asked"
_KINDS = (NUMBER, TRUTH, CATEGORY, PRESENCE, LEFT_OUT)


@dataclass(frozen=True)
class ColumnEncoding:
    """What becomes of one column.

    | kind | attributes |
    |---|---|
    | number | (x - center) / scale |
    | truth | 1 or 0 |
    | category | a 0/1 attribute for each of `categories` |
    | presence | 1 where there is a value |
    | left out | none; `why` gives the reason |

    A missing number or truth is read as `fill`. Where values were `missing`, a further 0/1
    attribute marks the nodes that lack them. `warning` is a sentence where cells look wrong.
    """

    name: str
    kind: str
    center: float = 0.0
    scale: float = 1.0
    fill: float = 0.0
    categories: tuple[str, ...] = ()
    missing: int = 0
    why: str = ""
    warning: str = ""

    def __post_init__(self) -> None:
        figures = (self.center, self.scale, self.fill)
        texts = (self.name, self.why, self.warning, *self.categories)
        sound = (
            self.kind in _KINDS
            and all(isinstance(part, str) for part in texts)
            and all(isinstance(x, (int, float)) and math.isfinite(x) for x in figures)
            and self.scale > 0
            and isinstance(self.missing, int)
            and self.missing >= 0
            and len(set(self.categories)) == len(self.categories)
        )
        if not sound:
            raise DataError(f"The encoding of column {self.name!r} is damaged.")

    @property
    def marks_missing(self) -> bool:
        """Whether a further attribute marks the nodes without a value."""
        return self.missing > 0 and self.kind in (NUMBER, TRUTH, CATEGORY)

    @property
    def attributes(self) -> tuple[str, ...]:
        """The names of the attributes it gives."""
        if self.kind == LEFT_OUT:
            return ()
        values = [f"{self.name}={category}" for category in self.categories]
        own = values if self.kind == CATEGORY else [self.name]
        return (*own, *([f"{self.name} is missing"] if self.marks_missing else []))


@dataclass(frozen=True)
class TableEncoding:
    """How a table of nodes is read: its id and label columns, and what becomes of the others.

    `missing` are the words, in lower case, that stand for no value.
    """

    id: str
    label: str | None
    columns: tuple[ColumnEncoding, ...]
    missing: tuple[str, ...]

    @property
    def used(self) -> tuple[ColumnEncoding, ...]:
        """The columns that give attributes, in the order of their attributes."""
        return tuple(column for column in self.columns if column.kind != LEFT_OUT)

    @property
    def attributes(self) -> tuple[str, ...]:
        """The name of every attribute, in order."""
        return tuple(name for column in self.used for name in column.attributes)

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> TableEncoding:
        """The encoding that `to_json` described; refuses anything else."""
        known = {part.name for part in fields(ColumnEncoding)}
        try:
            columns = []
            for column in stored["columns"]:
                plain = {COLUMN_KEYS.get(key, key): value for key, value in column.items()}
                if not plain.keys() <= known:
                    raise DataError("The encoding of a table has unknown parts.")
                plain["categories"] = tuple(plain["categories"])
                columns.append(ColumnEncoding(**plain))
            label = stored["label"]
            return cls(
                id=str(stored["id"]),
                label=None if label is None else str(label),
                columns=tuple(columns),
                missing=tuple(str(word) for word in stored["missing"]),
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise DataError(f"The encoding of a table is damaged ({error!r}).") from error
