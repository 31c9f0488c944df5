"""Comparisons: every method on the same splits, in one run.

The functions `evaluate` and `tune` are in the modules of their names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from xtcl.model_selection.evaluate import make_split

__all__ = ["make_split"]


def __getattr__(name: str) -> Any:
    """Import the name on first use, so that the package alone is quick to import."""
    if name not in __all__:
        raise AttributeError(f"module 'xtcl.model_selection' has no attribute '{name}'")
    from xtcl.model_selection.evaluate import make_split

    return make_split


def __dir__() -> list[str]:
    return sorted(__all__)
