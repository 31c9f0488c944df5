"""The options that choose a recipe, or change it: --config, --cap and --index-past."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

if TYPE_CHECKING:
    from xtcl.tasks.recipe import Recipe


def read_config(
    path: Path | None, task: str, encoder: str, seeds: Sequence[int], notes: Console
) -> Recipe | None:
    """The recipe of --config; says where it was tuned on what the splits of `seeds` test."""
    from xtcl.runs.recipe_file import read_recipe

    if path is None:
        return None
    stored = read_recipe(path, task, encoder)
    if stored.tuned_seed is not None and set(seeds) != {stored.tuned_seed}:
        notes.print(
            f"The recipe in {path} was tuned inside split {stored.tuned_seed}: other splits test "
            "part of what it was tuned on, and their figures may be too high.",
            soft_wrap=True,
            markup=False,
        )
    return stored.recipe


def capped(recipe: Recipe, cap: int | None, index_past: int | None) -> Recipe:
    """The recipe in top-k mode, as far as it is asked for; refuses what cannot be used."""
    sampler = recipe.sampler
    if cap is not None:
        sampler = replace(sampler, cap=cap)
    if index_past is not None:
        sampler = replace(sampler, index_past=index_past)
    return replace(recipe, sampler=sampler).checked()
