"""Settings in TOML: the `config.toml` of a run, and the file that `xtcl tune` writes."""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, is_dataclass
from pathlib import Path
from types import UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from xtcl.config import FitConfig, to_builtin
from xtcl.errors import DataError, UsageError
from xtcl.files import atomic_path
from xtcl.nn.encoder_check import check_encoder_options


def type_errors(value: Any, kind: Any, place: str) -> Iterator[str]:
    """The places, under `place`, of values that are not of the type `kind`; files can hold any."""
    if is_dataclass(kind):
        if not isinstance(value, kind):  # type: ignore[arg-type]
            yield place
            return
        for name, hint in get_type_hints(kind).items():
            yield from type_errors(getattr(value, name), hint, f"{place}.{name}")
    elif get_origin(kind) is UnionType:
        if all(any(type_errors(value, one, place)) for one in get_args(kind)):
            yield place
    elif get_origin(kind) is tuple and isinstance(value, tuple):
        for number, item in enumerate(value):
            yield from type_errors(item, get_args(kind)[0], f"{place}[{number}]")
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


@dataclass(frozen=True)
class StoredConfig:
    """A recipe, and the seed of the split it was tuned inside; None where it was not tuned."""

    recipe: FitConfig
    tuned_seed: int | None


def recipe_tables(recipe: FitConfig) -> dict[str, dict[str, object]]:
    """The recipe as tables of a TOML file.

    The ensembles come last: every recipe has some, so that a file cut short is always noticed.
    """
    settings = to_builtin(asdict(recipe))
    sampler, ensembles = settings.pop("sampler"), settings.pop("ensembles")
    return {"recipe.sampler": sampler, "recipe": {**settings, "ensembles": ensembles}}


def write_tuned(path: Path, described: Mapping[str, object], recipe: FitConfig) -> None:
    """Write the recipe below the account of its search, the `[tune]` table."""
    text = to_toml({"tune": described, **recipe_tables(recipe)})
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def read_recipe(path: Path, task: str, encoder: str) -> StoredConfig:
    """The recipe in `path`; refuses one for another task or encoder, and what is no recipe."""
    if not path.is_file():
        raise UsageError(f"There is no file '{path}'; name one that `xtcl tune` or a run wrote.")
    try:
        stored = tomllib.loads(path.read_text(encoding="utf-8"))
        source = stored["tune"] if "tune" in stored else stored["fit"]
        made_for = source["task"], source["encoder"]
        tuned_seed = int(source["seed"]) if "tune" in stored else None
        tables = stored["recipe"]
    except (ValueError, LookupError, TypeError, RecursionError) as broken:
        raise _refused(path, f"{type(broken).__name__}: {broken}") from broken
    if made_for != (task, encoder):
        raise UsageError(
            f"The recipe in '{path}' is for task '{made_for[0]}' with encoder '{made_for[1]}', not "
            f"for '{task}' with '{encoder}': name those, or another file."
        )
    return StoredConfig(_usable(path, tables, encoder), tuned_seed)


def _usable(path: Path, tables: Any, encoder: str) -> FitConfig:
    """The recipe that the tables describe, every setting looked at."""
    try:
        recipe = FitConfig.from_dict(tables)
        wrong = next(type_errors(recipe, FitConfig, "recipe"), None)
        if wrong is not None:
            raise UsageError(f"{wrong} is of the wrong kind.")
        recipe.validated()
        for ensemble in recipe.ensembles:
            for each in ensemble.encoders:
                check_encoder_options(encoder, each.encoder)
    except (ValueError, LookupError, TypeError, AttributeError, RuntimeError) as broken:
        raise _refused(path, str(broken)) from broken
    return recipe


def _refused(path: Path, reason: str) -> DataError:
    return DataError(
        f"'{path}' holds no recipe that can be used ({' '.join(reason.split())}); give a file that "
        "`xtcl tune` wrote, or the config.toml of a run."
    )


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
