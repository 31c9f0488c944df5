"""Names of release 0.1 that pages mention: they work until the next release, with a warning."""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

NAMES = {
    "BatchSettings": "BatchConfig",
    "Member": "EncoderConfig",
    "OwnTask": "CustomTask",
    "Plan": "EnsembleConfig",
    "Recipe": "FitConfig",
    "SamplerSettings": "SamplerConfig",
    "TrainingSettings": "TrainingConfig",
}
"""Old and new names of `xtcl` itself."""

MODULES = {
    "xtcl.ranks": {
        "ranks": "xtcl.distributed.world",
        "together": "xtcl.distributed.distributed",
    },
    "xtcl.relations.examples": {
        "path_of_four": "xtcl.relations.relation.path_of_four",
        "rows": "xtcl.relations.relation.rows",
    },
    "xtcl.tasks.answers": {
        "LinkAnswer": "xtcl.tasks.results.LinkScores",
        "NodeAnswer": "xtcl.tasks.results.NodePredictions",
    },
    "xtcl.tasks.own_task": {"OwnTask": "xtcl.tasks.custom.CustomTask"},
    "xtcl.tasks.registry": {"make_task": "xtcl.tasks.make_task"},
}
"""Modules that are gone, and where the names that were imported from them are now."""


def lookup(old: str, new: str) -> Any:
    """What is called `new`, with a warning that `old` is its old name."""
    warnings.warn(
        f"{old} is called {new} now; the old name goes with the next release.",
        DeprecationWarning,
        stacklevel=3,
    )
    module, _, name = new.rpartition(".")
    return getattr(importlib.import_module(module), name)


class RenamedModules(MetaPathFinder, Loader):
    """Makes the modules of `MODULES` importable."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """A spec for a module that is gone; None for all others."""
        return ModuleSpec(fullname, self) if fullname in MODULES else None

    def exec_module(self, module: ModuleType) -> None:
        """Give the module a `__getattr__` that finds the new names."""
        old, names = module.__name__, MODULES[module.__name__]

        def find(name: str) -> Any:
            if name not in names:
                raise AttributeError(f"module '{old}' has no attribute '{name}'")
            return lookup(f"{old}.{name}", names[name])

        vars(module)["__getattr__"] = find


sys.meta_path.append(RenamedModules())
