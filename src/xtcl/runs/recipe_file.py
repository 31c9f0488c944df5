"""A recipe in a TOML file, as `xtcl tune` writes it or as a run's `config.toml` holds it."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from xtcl.errors import DataError, UsageError
from xtcl.files import atomic_path
from xtcl.learning.encoders.registry import encoder_maker
from xtcl.runs.kinds import misfits
from xtcl.runs.toml import to_toml
from xtcl.tasks.plain import plain
from xtcl.tasks.recipe import Recipe


@dataclass(frozen=True)
class StoredRecipe:
    """A recipe, and the seed of the split it was tuned inside; None where it was not tuned."""

    recipe: Recipe
    tuned_seed: int | None


def recipe_tables(recipe: Recipe) -> dict[str, dict[str, object]]:
    """The recipe as tables of a TOML file.

    The plans come last: no recipe is without them, so that a file cut short is always noticed.
    """
    settings = plain(asdict(recipe))
    sampler, plans = settings.pop("sampler"), settings.pop("plans")
    return {"recipe.sampler": sampler, "recipe": {**settings, "plans": plans}}


def write_tuned(path: Path, described: Mapping[str, object], recipe: Recipe) -> None:
    """Write the recipe below the account of its search, the `[tune]` table."""
    text = to_toml({"tune": described, **recipe_tables(recipe)})
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def read_recipe(path: Path, task: str, encoder: str) -> StoredRecipe:
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
    return StoredRecipe(_usable(path, tables, encoder), tuned_seed)


def _usable(path: Path, tables: Any, encoder: str) -> Recipe:
    """The recipe that the tables describe, every setting looked at."""
    try:
        recipe = Recipe.from_plain(tables)
        wrong = next(misfits(recipe, Recipe, "recipe"), None)
        if wrong is not None:
            raise UsageError(f"{wrong} is of the wrong kind.")
        recipe.checked()
        for plan in recipe.plans:
            for member in plan.members:
                _check_options(encoder, member.encoder)
    except (ValueError, LookupError, TypeError, AttributeError, RuntimeError) as broken:
        raise _refused(path, str(broken)) from broken
    return recipe


def _check_options(encoder: str, options: dict[str, object]) -> None:
    """Refuse options that no encoder can be made with, without the memory that making one takes."""
    dropout = options.get("dropout", 0.0)
    if not isinstance(dropout, (int, float)) or not 0 <= dropout < 1:
        raise UsageError(f"dropout={dropout} must be in [0, 1).")
    with torch.device("meta"):
        encoder_maker(encoder, 1, options)()


def _refused(path: Path, reason: str) -> DataError:
    return DataError(
        f"'{path}' holds no recipe that can be used ({' '.join(reason.split())}); give a file that "
        "`xtcl tune` wrote, or the config.toml of a run."
    )
