"""Modules of a user, written to a folder and imported from there."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

RELATION = """
from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from xtcl.relations.relation import Relation


@dataclass(frozen=True)
class Own(Relation):
    name: ClassVar[str] = "own"
    title: ClassVar[str] = "Own"
    reads: ClassVar[frozenset[str]] = frozenset()
    cacheable: ClassVar[bool] = True

    def prepare(self, view):
        # all are alike
        return lambda nodes: torch.full((len(nodes), view.num_nodes), 0.5)


@dataclass(frozen=True)
class Child(Own):
    cacheable: ClassVar[bool] = True
"""
"""Two cacheable relations, the second of which leaves everything to the first."""


def user_module(folder: Path, source: str, name: str = "users_own") -> ModuleType:
    """A module called `name` with this source. One of the same name is replaced."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.py"
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # inspect and dataclass look for it there
    spec.loader.exec_module(module)
    return module
