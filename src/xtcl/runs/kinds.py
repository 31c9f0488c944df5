"""Whether the values of a dataclass are of the kinds it declares; files can hold anything."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import is_dataclass
from types import UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints


def misfits(value: Any, kind: Any, place: str) -> Iterator[str]:
    """The places of values that are not of their kind, under `place`."""
    if is_dataclass(kind):
        if not isinstance(value, kind):  # type: ignore[arg-type]
            yield place
            return
        for name, hint in get_type_hints(kind).items():
            yield from misfits(getattr(value, name), hint, f"{place}.{name}")
    elif get_origin(kind) is UnionType:
        if all(any(misfits(value, one, place)) for one in get_args(kind)):
            yield place
    elif get_origin(kind) is tuple and isinstance(value, tuple):
        for number, item in enumerate(value):
            yield from misfits(item, get_args(kind)[0], f"{place}[{number}]")
    elif not _is(value, kind):
        yield place


def _is(value: Any, kind: Any) -> bool:
    """Whether `value` is of a plain kind; whole numbers are numbers, true and false are neither."""
    if get_origin(kind) is Literal:
        return value in get_args(kind)
    if kind in (int, float):
        numbers = (int, float) if kind is float else int
        is_number = isinstance(value, numbers) and not isinstance(value, bool)
        return is_number and math.isfinite(value)
    return isinstance(value, get_origin(kind) or kind)
