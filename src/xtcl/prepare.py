"""A fit, prepared: everything that is decided before any work, each of it once."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import platform
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

import xtcl
from xtcl.code_digest import code_digest, user_code_digest
from xtcl.config import EncoderConfig, EnsembleConfig, FitConfig, to_builtin
from xtcl.device import parse_memory, pick_device
from xtcl.errors import UsageError
from xtcl.graph.convert import as_graph
from xtcl.graph.graph import Graph
from xtcl.graph.splits import LinkSplit, NodeSplit, full_split
from xtcl.nn.encoder_check import check_encoder, check_encoder_options
from xtcl.planning.memory_plan import MemoryPlan, plan_fit
from xtcl.planning.sizes import Sizes
from xtcl.progress import Progress
from xtcl.relations.registry import resolve_relations
from xtcl.relations.relation import Relation
from xtcl.relations.store.relation_store import RelationStore
from xtcl.tasks import TASKS, make_task
from xtcl.tasks.fit import FitOptions
from xtcl.tasks.task import Task
from xtcl.tasks.training_data import TrainingData, check_disjoint, training_data
from xtcl.training.checkpoint import NullCheckpoints, SharedCheckpoints

if TYPE_CHECKING:
    from xtcl.estimator import XTCL


RESULT_CODE = (
    "xtcl.relations",
    "xtcl.sampling",
    "xtcl.nn",
    "xtcl.training",
    "xtcl.tasks",
    "xtcl.device",
    "xtcl.distributed",
    "xtcl.cuda_graphs",
    "xtcl.config",
    "xtcl.graph.graph",
    "xtcl.graph.labels",
    "xtcl.graph.splits",
    "xtcl.graph.subgraph",
    "xtcl.prepare",
)
"""The code that decides what a fit computes from its settings and data.

Code that reads or converts a graph is left out, because the graph itself is hashed. Cost: a third
of a second, once for each process.
"""


@dataclass(frozen=True)
class FitSettings:
    """The parameters of an `XTCL`, checked and resolved; they need no data.

    `config` is the recipe of the task, or the one that was given, with the parameters put in.
    """

    task: Task
    config: FitConfig
    encoder: str | nn.Module
    relations: Sequence[Relation]
    use_labels: bool
    device: torch.device
    memory: int | None
    """The budget in bytes; None: no budget."""
    store: RelationStore | None
    seed: int

    @classmethod
    def of(cls, model: XTCL) -> FitSettings:
        """The settings of `model`; a value that cannot be used is refused before any work."""
        task = make_task(model.task)
        store = model.store
        if store is not None and not isinstance(store, RelationStore):
            store = RelationStore(Path(store))
        return cls(
            task=task,
            config=resolve_config(model, task),
            encoder=model.encoder,
            relations=resolve_relations(model.relations),
            use_labels=model.use_labels,
            device=pick_device(model.device),
            memory=None if model.memory is None else parse_memory(model.memory),
            store=store,
            seed=int(model.random_state),
        )


@dataclass(frozen=True)
class PreparedFit:
    """One fit, ready to start: `xtcl fit`, `--dry-run`, `--resume` and `XTCL.fit` share it.

    `data` is the training side of `graph`: whatever reads it cannot see the test side of `split`.
    """

    settings: FitSettings
    graph: Graph
    split: NodeSplit | LinkSplit | None
    data: TrainingData
    sizes: Sizes
    plan: MemoryPlan

    @property
    def task(self) -> Task:
        """What the embeddings are for."""
        return self.settings.task

    @property
    def config(self) -> FitConfig:
        """Every setting of the fit, with the mini-batches of the memory plan."""
        return self.plan.recipe

    @property
    def device(self) -> torch.device:
        """Where the fit runs."""
        return self.settings.device

    @property
    def test_labels(self) -> np.ndarray | None:
        """Label codes of the test nodes in the order of the split; None without such nodes."""
        if not isinstance(self.split, NodeSplit) or self.graph.labels is None:
            return None
        return np.asarray(self.graph.labels[self.split.test])

    def options(self, progress: Progress, checkpoints: NullCheckpoints) -> FitOptions:
        """What `fit_task` takes besides data, task and configuration."""
        settings = self.settings
        return FitOptions(
            encoder=settings.encoder,
            relations=settings.relations,
            seed=settings.seed,
            device=settings.device,
            block_rows=self.plan.block_rows,
            keep_relations=self.plan.relations_kept,
            store=settings.store,
            progress=progress,
            checkpoints=SharedCheckpoints(checkpoints),
        )

    @cached_property
    def identity(self) -> str:
        """SHA-256 of all that decides the result. A fit goes on only from checkpoints of its own.

        A graph's fingerprint leaves its labels out. Those that train are hashed, the others not.
        """
        settings, labels = self.settings, self.data.graph.labels
        known = b"" if labels is None else np.ascontiguousarray(labels).tobytes()
        named = type(settings.task) in TASKS.values()
        described: dict[str, Any] = {
            "code": code_digest(*RESULT_CODE),
            "graph": self.graph.fingerprint(),
            "labels": hashlib.sha256(known).hexdigest(),
            "split": None if self.split is None else self.split.fingerprint(),
            "recipe": to_builtin(asdict(self.config)),
            "task": settings.task.name if named else _task(settings.task),
            "encoder": _described(settings.encoder),
            "relations": [_relation(relation) for relation in settings.relations],
            "seed": settings.seed,
            "device": settings.device.type,  # random states of one do not fit another
        }
        return hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()


def _relation(relation: Relation) -> list[Any]:
    kind = type(relation)
    function = _described(kind.registered_function)
    return [relation.name, repr(relation), *_class(kind), function]


def _task(task: Task) -> list[Any]:
    return [*_class(type(task)), _all_described(vars(task), frozenset())]


def _class(kind: type) -> list[str | None]:
    return [kind.__module__, kind.__qualname__, user_code_digest(kind)]


def _all_described(values: Mapping[str, object], inside: frozenset[int]) -> dict[str, Any]:
    return {name: _described(value, inside) for name, value in values.items()}


def _described(value: object, inside: frozenset[int] = frozenset()) -> Any:
    """What is known of something that the user gave, as JSON values.

    Arrays by their content, modules of torch by code and weights, functions by code and by the
    variables outside that they read. The rest by its repr. `inside` are the functions around it.
    """
    if isinstance(value, nn.Module):
        code = user_code_digest(*{type(part) for part in value.modules()})
        weights = _all_described(value.state_dict(), inside)
        return [*_class(type(value)), code, str(value), weights]
    if isinstance(value, FunctionType):
        named = [value.__module__, value.__qualname__, user_code_digest(value)]
        if id(value) in inside:
            return named
        return [*named, _all_described(_variables(value), inside | {id(value)})]
    if type(value) in (torch.Tensor, nn.Parameter) and isinstance(value, torch.Tensor):
        value = value.detach().cpu()
        if value.layout == torch.strided:
            value = (value.double() if value.is_floating_point() else value).numpy()
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        content = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
        return [value.dtype.str, list(value.shape), content]
    return repr(value)


def _variables(function: FunctionType) -> dict[str, object]:
    """Defaults of a function, and the variables outside that it and those inside it read.

    Of functions and classes among the global variables, only the code.
    """
    codes, names = [function.__code__], set[str]()
    for code in codes:  # grows by the functions inside
        names |= set(code.co_names)
        codes += [each for each in code.co_consts if isinstance(each, CodeType)]
    read: dict[str, object] = {
        name: user_code_digest(each) if isinstance(each, (FunctionType, type)) else each
        for name, each in function.__globals__.items()
        if name in names and not isinstance(each, ModuleType)
    }
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with suppress(ValueError):  # the variable has no value yet
            read[name] = cell.cell_contents
    return read | {"defaults": (function.__defaults__, function.__kwdefaults__)}


PACKAGES = ("torch", "torch_geometric", "numpy", "scipy", "scikit-learn")
"""Those whose versions can change a result."""


def environment(device: torch.device) -> dict[str, str]:
    """Versions by package, and the device; nothing names the host."""
    gpu = f" ({torch.cuda.get_device_name(device)})" if device.type == "cuda" else ""
    return {
        "xtcl": xtcl.__version__,
        "python": platform.python_version(),
        **{name: importlib.metadata.version(name) for name in PACKAGES},
        "system": f"{platform.system()} {platform.machine()}",
        "device": f"{device.type}{gpu}",
    }


def prepare(
    model: XTCL,
    graph: Any,
    split: NodeSplit | LinkSplit | None = None,
    settings: FitSettings | None = None,
) -> PreparedFit:
    """Prepare a fit of `model`; refuses data, split and memory that cannot be used.

    `graph` is a Graph, a PyG `Data` or a NetworkX graph. Without a split, all labels or links are
    trained on. `settings` are those of the model, where they are known already.
    """
    settings = settings or FitSettings.of(model)
    graph = as_graph(graph)
    data = _training_side(graph, split, settings)
    return prepare_data(settings, graph, split, data)


def prepare_data(
    settings: FitSettings,
    graph: Graph,
    split: NodeSplit | LinkSplit | None,
    data: TrainingData,
) -> PreparedFit:
    """Prepare a fit on the training data of `graph`; refuses an encoder that cannot embed it."""
    encoder = check_encoder(settings.encoder, data.graph, settings.device)
    sizes = Sizes.of(
        data,
        settings.task.name,
        settings.config,
        encoder=encoder,
        device=settings.device.type,
        store=settings.store is not None,
    )
    return PreparedFit(settings, graph, split, data, sizes, plan_fit(sizes, settings.memory))


def _training_side(
    graph: Graph, split: NodeSplit | LinkSplit | None, settings: FitSettings
) -> TrainingData:
    """The graph without the test side of the split; refuses a split of the wrong kind."""
    task = settings.task
    if split is None:
        if not graph.has_labels and task.name not in TASKS:
            return TrainingData(graph)
        whole = full_split(graph, task.name, settings.seed)
        return training_data(graph, whole, use_labels=settings.use_labels)
    wanted = "links" if task.name == "links" else "nodes"
    if split.kind != wanted:
        raise UsageError(
            f"task='{task.name}' needs a split of {wanted} and got one of {split.kind}: "
            f"use {'link' if wanted == 'links' else 'node'}_split(graph)."
        )
    data = training_data(graph, split, use_labels=settings.use_labels)
    check_disjoint(data, split)
    return data


def resolve_config(model: XTCL, task: Task) -> FitConfig:
    """The task's recipe with the parameters of `model` put in; refuses what cannot be used."""
    check_encoder_options(model.encoder, {})  # an unknown name is refused before any work
    seed = model.random_state
    if not isinstance(seed, (int, np.integer)) or not 0 <= seed < 2**32:
        raise UsageError(f"random_state={seed} must be a whole number from 0 to 2**32 - 1.")
    if model.width is not None and model.width < 1:
        raise UsageError(f"width={model.width} must be at least 1.")
    if model.sampler not in ("xtcl", "paper"):
        raise UsageError(f"sampler='{model.sampler}' must be 'xtcl' or 'paper'.")
    name = model.encoder if isinstance(model.encoder, str) else "own"
    config = model.recipe or task.recipe(name)
    if model.sampler == "paper":
        config = config.as_in_paper(name)
    if model.encoder_options is not None:
        single = EncoderConfig(
            dict(model.encoder_options), config.ensembles[0].encoders[0].training
        )
        config = replace(config, ensembles=(EnsembleConfig((single,)),))
    if model.epochs is not None:
        config = replace(config, stop_early=False)
    sampler = _given(model, "cap", "index_past", "quantiles")
    if "quantiles" in sampler:
        sampler["quantiles"] = tuple(sampler["quantiles"])
    training = _given(model, "epochs", "learning_rate", "negatives", "temperature", "similarity")
    width = _given(model, "width")

    def changed(member: EncoderConfig) -> EncoderConfig:
        return replace(
            member,
            encoder=member.encoder | width,
            training=replace(member.training, **training),
        )

    config = replace(config, sampler=replace(config.sampler, **sampler))
    config = replace(
        config.map_encoders(changed), **_given(model, "crossfit", "positives")
    ).validated()
    for ensemble in config.ensembles:
        for member in ensemble.encoders:
            check_encoder_options(model.encoder, member.encoder)
    return config


def _given(model: XTCL, *names: str) -> dict[str, Any]:
    """The parameters among `names` that are set."""
    return {name: getattr(model, name) for name in names if getattr(model, name) is not None}
