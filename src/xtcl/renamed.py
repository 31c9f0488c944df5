"""Every name that changed since release 0.1, old to new.

Settings files and runs of earlier versions are read through these tables. In Python, old names work
until the next release, with a warning.
"""

from __future__ import annotations

import functools
import importlib
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, ParamSpec, TypeVar

_P = ParamSpec("_P")
_Config = TypeVar("_Config")

SETTINGS = {
    # Fields, also in config.toml, tuned.toml and the model.json of schema 3.
    "least_chance": "min_probability",
    "draws": "num_positives_per_step",
    "link_draws": "num_links_per_step",
    "plans": "ensembles",
    "doubt": "downweight",
    "sure": "self_training_threshold",
    "members": "encoders",
    "caution": "trust_exponent",
    # Methods.
    "checked": "validated",
    "each": "map_encoders",
    "literal": "as_in_paper",
    "from_plain": "from_dict",
    "drawn": "anchors_per_epoch",
    "steps": "steps_per_epoch",
    "step_anchors": "anchors_per_step",
}
"""Fields of the configuration, in files and in Python, and methods of its classes."""

VIEW_MEMBERS = {
    "evidence": "available",
    "forget": "clear_cache",
    "hiding_labels": "without_labels",
    "hiding_links": "without_links",
    "label_holders": "all_labelled",
    "once": "cached",
}
"""Members of `TrainingView`."""

TASK_METHODS = {"second_head": "self_train", "evidence": "cv_log_likelihood"}
"""Methods that a user's subclass of `Task` may have."""

HEAD_ARRAYS = {"strength": "C", "sureness": "inverse_temperature"}
"""Arrays of a saved head."""

COLUMN_KEYS = {"doubt": "warning"}
"""Keys of the stored encoding of a table's column."""

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

MODULES: dict[str, dict[str, str]] = {
    "xtcl.baselines.asp": {"ASP": "xtcl.lab.methods.asp.ASP"},
    "xtcl.baselines.ceiling_scl": {"CeilingSCL": "xtcl.lab.methods.contrastive.CeilingSCL"},
    "xtcl.baselines.cocos": {"CoCoS": "xtcl.lab.methods.cocos.CoCoS"},
    "xtcl.baselines.dgcn": {"DGCN": "xtcl.lab.methods.dgcn.DGCN"},
    "xtcl.baselines.dgi": {"DGI": "xtcl.lab.methods.dgi.DGI"},
    "xtcl.baselines.meta_pn": {"MetaPN": "xtcl.lab.methods.meta_pn.MetaPN"},
    "xtcl.baselines.naive_tcl": {"NaiveTCL": "xtcl.lab.methods.contrastive.NaiveTCL"},
    "xtcl.baselines.naive_xgboost": {"NaiveXGBoost": "xtcl.lab.methods.naive_xgboost.NaiveXGBoost"},
    "xtcl.baselines.polygcl": {"PolyGCL": "xtcl.lab.methods.polygcl.PolyGCL"},
    "xtcl.baselines.scl": {"SCL": "xtcl.lab.methods.contrastive.SCL"},
    "xtcl.baselines.sscl": {"SSCL": "xtcl.baselines.contrastive.SSCL"},
    "xtcl.baselines.subgraph": {"SubGraph": "xtcl.lab.methods.subgraph.SubGraph"},
    "xtcl.baselines.sugrl": {"SUGRL": "xtcl.lab.methods.sugrl.SUGRL"},
    "xtcl.baselines.own_method": {
        "as_method": "xtcl.baselines.custom_method.as_method",
        "own_method": "xtcl.baselines.custom_method.custom_method",
    },
    "xtcl.graph.leaks": {"check_no_leak": "xtcl.graph.splits.check_no_leak"},
    "xtcl.graph.link_split": {
        "LinkSplit": "xtcl.graph.splits.LinkSplit",
        "link_split": "xtcl.graph.splits.link_split",
    },
    "xtcl.graph.node_split": {
        "NodeSplit": "xtcl.graph.splits.NodeSplit",
        "node_split": "xtcl.graph.splits.node_split",
    },
    "xtcl.integrations.add_embedding": {
        "AddXTCLEmbedding": "xtcl.integrations.AddXTCLEmbedding",
    },
    "xtcl.integrations.node_embedder": {"NodeEmbedder": "xtcl.integrations.NodeEmbedder"},
    "xtcl.learning": {},
    "xtcl.learning.batch_settings": {"BatchSettings": "xtcl.config.BatchConfig"},
    "xtcl.learning.trainer": {"TrainingSettings": "xtcl.config.TrainingConfig"},
    "xtcl.memory": {
        "give_back_freed": "xtcl.device.trim_heap",
        "keep_large_arrays_apart": "xtcl.device.set_mmap_threshold",
        "parse_memory": "xtcl.device.parse_memory",
    },
    "xtcl.model_selection.evaluate": {
        name: f"xtcl.model_selection.evaluation.{name}"
        for name in ("Evaluation", "evaluate", "make_split", "score_method", "standard_error")
    },
    "xtcl.model_selection.tune": {
        name: f"xtcl.model_selection.tuning.{name}" for name in ("Tuned", "TunedTrial", "tune")
    },
    "xtcl.ranks": {
        "ranks": "xtcl.distributed.world",
        "together": "xtcl.distributed.distributed",
    },
    "xtcl.relations.own": {
        "FunctionRelation": "xtcl.relations.custom.FunctionRelation",
        "MatrixRelation": "xtcl.relations.custom.MatrixRelation",
    },
    "xtcl.sampling.settings": {"SamplerSettings": "xtcl.config.SamplerConfig"},
    "xtcl.tasks.answers": {
        "LinkAnswer": "xtcl.tasks.results.LinkScores",
        "NodeAnswer": "xtcl.tasks.results.NodePredictions",
    },
    "xtcl.tasks.calibration": {
        "agreeing": "xtcl.tasks.logistic.match_temperature",
        "calibrated_likelihood": "xtcl.tasks.logistic.calibrated_likelihood",
        "sureness": "xtcl.tasks.logistic.inverse_temperature",
    },
    "xtcl.tasks.own_task": {"OwnTask": "xtcl.tasks.custom.CustomTask"},
    "xtcl.tasks.recipe": {
        "Member": "xtcl.config.EncoderConfig",
        "Plan": "xtcl.config.EnsembleConfig",
        "Recipe": "xtcl.config.FitConfig",
    },
    "xtcl.tasks.registry": {"make_task": "xtcl.tasks.make_task"},
}
"""Modules that are gone, and where the names that were imported from them are now."""


def lookup(old: str, new: str) -> Any:
    """What is called `new`, with a warning that `old` is its old name."""
    warn_renamed(old, new, stacklevel=4)
    return _found(new)


def warn_renamed(old: str, new: str, stacklevel: int = 3) -> None:
    """Warn the caller of the caller that `old` is the old name of `new`."""
    message = f"{old} is called {new} now; the old name goes with the next release."
    warnings.warn(message, DeprecationWarning, stacklevel=stacklevel)


def renamed_keywords(**names: str) -> Callable[[Callable[_P, None]], Callable[_P, None]]:
    """A decorator of `__init__` that takes keywords under their old names, with a warning."""

    def decorate(init: Callable[_P, None]) -> Callable[_P, None]:
        @functools.wraps(init)
        def with_old_keywords(*args: _P.args, **kwargs: _P.kwargs) -> None:
            for old in names.keys() & kwargs.keys():
                warn_renamed(f"{type(args[0]).__name__}: '{old}'", f"'{names[old]}'")
                kwargs[names[old]] = kwargs.pop(old)
            init(*args, **kwargs)

        return with_old_keywords

    return decorate


class _OldSetting:
    """An attribute under its old name, with a warning."""

    def __init__(self, old: str) -> None:
        self.old = old

    def __get__(self, instance: object, owner: type) -> Any:
        _warn_renamed_setting(owner, self.old)
        return getattr(owner if instance is None else instance, SETTINGS[self.old])


def _warn_renamed_setting(owner: type, old: str) -> None:
    warn_renamed(f"{owner.__name__}: '{old}'", f"'{SETTINGS[old]}'", stacklevel=4)


def with_old_names(cls: type[_Config]) -> type[_Config]:
    """Let a dataclass take keywords, and give attributes, under the names of the last release."""
    current = {each.name for each in fields(cls)}  # type: ignore[arg-type]
    old_fields = {old for old, new in SETTINGS.items() if new in current}
    init = cls.__init__

    @functools.wraps(init)
    def with_old_keywords(self: _Config, *args: Any, **kwargs: Any) -> None:
        for old in old_fields & kwargs.keys():
            _warn_renamed_setting(cls, old)
            # `dataclasses.replace` gives the new name, too: the old one is what the caller wrote.
            kwargs[SETTINGS[old]] = kwargs.pop(old)
        init(self, *args, **kwargs)

    cls.__init__ = with_old_keywords  # type: ignore[method-assign, assignment]
    for old, new in SETTINGS.items():
        if hasattr(cls, new) or new in current:
            setattr(cls, old, _OldSetting(old))
    return cls


def current_names(stored: Mapping[str, Any]) -> dict[str, Any]:
    """The stored settings under their names of today."""
    settings = dict(stored)
    for old in SETTINGS.keys() & stored.keys():
        if SETTINGS[old] in settings:
            raise TypeError(f"'{old}' is the old name of '{SETTINGS[old]}', which is there, too")
        settings[SETTINGS[old]] = settings.pop(old)
    return settings


def _found(dotted: str) -> Any:
    module, _, name = dotted.rpartition(".")
    return getattr(importlib.import_module(module), name)


class RenamedModule(ModuleType):
    """A module that is gone. It finds its names where they are now.

    `xtcl.graph.node_split` was a module and is a function now. Once the module is imported it takes
    the place of the function, so it can be called like it.
    """

    def __getattr__(self, name: str) -> Any:
        """The object that was called `name`."""
        names = MODULES[self.__name__]
        if name not in names:
            raise AttributeError(f"module '{self.__name__}' has no attribute '{name}'")
        return lookup(f"{self.__name__}.{name}", names[name])

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """Call the function that has the name of the module."""
        new = MODULES[self.__name__].get(self.__name__.rpartition(".")[2])
        if new is None:
            raise TypeError(f"module '{self.__name__}' cannot be called")
        return _found(new)(*arguments, **options)


class RenamedModuleFinder(MetaPathFinder, Loader):
    """Makes the modules of `MODULES` importable."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """A spec for a module that is gone; None for all others."""
        if fullname not in MODULES:
            return None
        is_package = any(name.startswith(f"{fullname}.") for name in MODULES)
        return ModuleSpec(fullname, self, is_package=is_package)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """The module, which has no code to run."""
        return RenamedModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing: names are looked up when they are used."""


sys.meta_path.append(RenamedModuleFinder())
