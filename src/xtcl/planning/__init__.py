"""What a fit will take, and how it is kept within a memory budget: decided before any work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from xtcl.planning.memory_plan import MemoryPlan

__all__ = ["MemoryPlan"]


def __getattr__(name: str) -> Any:
    """Import the name on first use, so that the package alone is quick to import."""
    if name not in __all__:
        raise AttributeError(f"module 'xtcl.planning' has no attribute '{name}'")
    from xtcl.planning.memory_plan import MemoryPlan

    return MemoryPlan


def __dir__() -> list[str]:
    return sorted(__all__)
