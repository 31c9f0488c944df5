"""Settings in TOML: the `config.toml` of a run, and the file that `xtcl tune` writes."""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from xtcl.config import RECIPES, FitConfig, to_builtin
from xtcl.errors import DataError, UsageError, known_names
from xtcl.files import atomic_path
from xtcl.nn.encoder_check import check_encoder_options
from xtcl.renamed import SETTINGS


def type_errors(value: Any, kind: Any, place: str) -> Iterator[str]:
    """What is wrong with values under `place` that are not of the type `kind`; files hold any."""
    wrong = f"{place} = {value!r} must be {_in_words(kind)}"
    if is_dataclass(kind):
        if not isinstance(value, kind):  # type: ignore[arg-type]
            yield wrong
            return
        for name, hint in get_type_hints(kind).items():
            yield from type_errors(getattr(value, name), hint, f"{place}.{name}")
    elif get_origin(kind) is UnionType:
        if all(any(type_errors(value, one, place)) for one in get_args(kind)):
            yield wrong
    elif get_origin(kind) is tuple and isinstance(value, tuple):
        for number, item in enumerate(value):
            yield from type_errors(item, get_args(kind)[0], f"{place}[{number}]")
    elif not _is(value, kind):
        yield wrong


KIND_IN_WORDS: dict[Any, str] = {
    int: "a whole number",
    float: "a finite number",
    bool: "true or false",
    str: "a text",
    NoneType: "left out",
    tuple: "a list",
}


def _in_words(kind: Any) -> str:
    """What a file has to hold for a value of the type."""
    if get_origin(kind) is Literal:
        return " or ".join(f"'{name}'" for name in get_args(kind))
    if get_origin(kind) is UnionType:
        return " or ".join(map(_in_words, get_args(kind)))
    return KIND_IN_WORDS.get(get_origin(kind) or kind, "a table")


def setting_errors(stored: object, kind: Any, place: str) -> Iterator[str]:
    """What is wrong with the tables under `place` that a dataclass `kind` is to be made of.

    Unknown settings, and what is no table or list where one is needed.
    """
    if not isinstance(stored, Mapping):
        yield f"{place} = {stored!r} must be a table"
        return
    hints = get_type_hints(kind)
    for name, value in stored.items():
        hint, inside = hints.get(str(SETTINGS.get(name, name))), f"{place}.{name}"
        if hint is None:
            yield f"{place} has no setting '{name}'.{known_names(name, hints)}"
        elif is_dataclass(hint):
            yield from setting_errors(value, hint, inside)
        elif get_origin(hint) is tuple:
            if not isinstance(value, list):
                yield f"{inside} = {value!r} must be a list"
            elif is_dataclass(item := get_args(hint)[0]):
                for number, each in enumerate(value):
                    yield from setting_errors(each, item, f"{inside}[{number}]")


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
        raise UsageError(
            f"There is no file '{path}'; name one that `xtcl tune` or a run wrote, or "
            f"one of the recipes {', '.join(RECIPES)}."
        )
    try:
        stored = tomllib.loads(path.read_text(encoding="utf-8"))
        for table, holds in (("recipe", "settings"), ("fit", "task and encoder")):
            if table not in stored and not (table == "fit" and "tune" in stored):
                raise LookupError(f"it has no table [{table}], which holds the {holds}")
        source = stored["tune"] if "tune" in stored else stored["fit"]
        made_for = source["task"], source["encoder"]
        tuned_seed = int(source["seed"]) if "tune" in stored else None
        tables = stored["recipe"]
    except (ValueError, LookupError, TypeError, RecursionError) as broken:
        said = f"it lacks {broken}" if isinstance(broken, KeyError) else str(broken)
        raise _refused(path, said) from broken
    if made_for != (task, encoder):
        raise UsageError(
            f"The recipe in '{path}' is for task '{made_for[0]}' with encoder '{made_for[1]}', not "
            f"for '{task}' with '{encoder}': name those, or another file."
        )
    return StoredConfig(_usable(path, tables, encoder), tuned_seed)


def _usable(path: Path, tables: Any, encoder: str) -> FitConfig:
    """The recipe that the tables describe, every setting looked at."""
    try:
        for wrong in setting_errors(tables, FitConfig, "recipe"):
            raise UsageError(wrong)
        recipe = FitConfig.from_dict(tables)
        for wrong in type_errors(recipe, FitConfig, "recipe"):
            raise UsageError(wrong)
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
        "`xtcl recipe` or `xtcl tune` wrote, or the config.toml of a run."
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
