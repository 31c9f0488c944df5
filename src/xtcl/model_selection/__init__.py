"""Comparisons: every method on the same splits, in one run; and the search for a better recipe."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from xtcl.model_selection.evaluation import compare, evaluate, make_split
    from xtcl.model_selection.tuning import tune

__all__ = ["compare", "evaluate", "make_split", "tune"]


def __getattr__(name: str) -> Any:
    """Import the name on first use, so that the package alone is quick to import."""
    if name not in __all__:
        raise AttributeError(f"module 'xtcl.model_selection' has no attribute '{name}'")
    if name == "tune":
        from xtcl.model_selection.tuning import tune

        return tune
    from xtcl.model_selection import evaluation

    return getattr(evaluation, name)


def __dir__() -> list[str]:
    return sorted(__all__)
