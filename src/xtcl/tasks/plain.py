"""Values in the kinds that JSON and TOML know."""

from __future__ import annotations

from typing import Any

import numpy as np


def plain(value: Any) -> Any:
    """`value` without NumPy's kinds, which a search over parameters gives, and without tuples."""
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    if isinstance(value, dict):
        return {name: plain(entry) for name, entry in value.items()}
    return [plain(entry) for entry in value] if isinstance(value, (list, tuple)) else value
