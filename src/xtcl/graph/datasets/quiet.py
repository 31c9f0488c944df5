"""Silence for the deprecation warning that PyG itself raises, and for no other."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def quiet_pyg() -> Iterator[None]:
    """Importing PyG compiles with `torch.jit`, which torch deprecates.

    Leaving the block also takes back the filters that PyG's reader adds to the process.
    """
    with warnings.catch_warnings():
        message = r".*torch\.jit\.\w+. is deprecated"
        warnings.filterwarnings("ignore", message, DeprecationWarning)
        yield
