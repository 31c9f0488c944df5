"""A fit, prepared: everything that is decided before any work, each of it once."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from numbers import Integral
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from torch import nn

import xtcl
from xtcl.code_digest import code_digest, describe_code, describe_value
from xtcl.config import RECIPES, EncoderConfig, EnsembleConfig, FitConfig, to_builtin
from xtcl.device import parse_memory, pick_device
from xtcl.distributed import check_seed, drawn_seed
from xtcl.errors import UsageError, check_whole, is_number, is_whole
from xtcl.graph.convert import as_graph, is_of
from xtcl.graph.graph import Graph
from xtcl.graph.splits import LinkSplit, NodeSplit, as_split, full_split, masks_of
from xtcl.nn import encoder_name
from xtcl.nn.encoder_check import check_encoder, check_encoder_options
from xtcl.planning.memory_plan import MemoryPlan, plan_fit
from xtcl.planning.sizes import Sizes
from xtcl.progress import Progress, check_progress
from xtcl.relations import FunctionRelation, Relation, RelationStore, resolve_relations
from xtcl.relations.store.relation_store import as_store
from xtcl.relations.thresholds import check_quantiles
from xtcl.sampling.positives import CODE_OF_POSITIVES
from xtcl.sampling.strategies import PositiveStrategy, make_strategy
from xtcl.tasks import TASKS, Task, make_task
from xtcl.tasks.fit_options import FitOptions
from xtcl.tasks.metrics import check_metric
from xtcl.tasks.training_data import TrainingData, check_disjoint, training_data
from xtcl.training.checkpoint import NullCheckpoints, SharedCheckpoints

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from xtcl.estimator import XTCL


RESULT_CODE = (
    *CODE_OF_POSITIVES,
    "xtcl.nn",
    "xtcl.training",
    "xtcl.tasks",
    "xtcl.device",
    "xtcl.cuda_graphs",
    "xtcl.graph.graph",
    "xtcl.graph.labels",
    "xtcl.graph.pairs",
    "xtcl.graph.splits",
    "xtcl.graph.subgraph",
    "xtcl.graph.validation",
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
    strategy: PositiveStrategy
    use_labels: bool
    device: torch.device
    memory: int | None
    """The budget in bytes; None: no budget."""
    store: RelationStore | None
    seed: int

    @classmethod
    def of(cls, model: XTCL, seed: int | None = None) -> FitSettings:
        """The settings of `model`; a value that cannot be used is refused before any work.

        `seed` takes the place of one drawn from `random_state`.
        """
        task = make_task(model.task)
        config = resolve_config(model, task)
        return cls(
            task=task,
            config=config,
            encoder=model.encoder,
            relations=resolve_relations(model.relations, printed=config.sampler.printed_relations),
            strategy=strategy_of(model) or make_strategy(config.strategy),
            use_labels=model.use_labels,
            device=pick_device(model.device),
            memory=None if model.memory is None else parse_memory(model.memory),
            store=as_store(model.store),
            seed=drawn_seed(model.random_state) if seed is None else seed,
        )


@dataclass(frozen=True)
class PreparedFit:
    """One fit, ready to start: `xtcl fit`, `--dry-run`, `--resume` and `XTCL.fit` share it.

    `data` are the training data of `graph`; whoever reads them cannot see the test side of `split`.
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
        if not len(self.split.test):
            return None
        return np.asarray(self.graph.labels[self.split.test])

    def options(self, progress: Progress, checkpoints: NullCheckpoints) -> FitOptions:
        """What `fit_task` takes besides data, task and configuration."""
        settings = self.settings
        return FitOptions(
            encoder=settings.encoder,
            relations=settings.relations,
            strategy=settings.strategy,
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
            "torch": str(torch.__version__),
            "graph": self.graph.fingerprint(),
            "labels": hashlib.sha256(known).hexdigest(),
            "split": None if self.split is None else self.split.fingerprint(),
            "recipe": to_builtin(asdict(self.config)),
            "task": settings.task.name if named else _task(settings.task),
            "encoder": describe_value(settings.encoder),
            "relations": [_relation(relation) for relation in settings.relations],
            "strategy": _strategy(settings.strategy),
            "seed": settings.seed,
            "device": settings.device.type,  # random states of one do not fit another
        }
        return hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()


def _relation(relation: Relation) -> list[Any]:
    names = [part.name for part in fields(cast("DataclassInstance", relation))]
    functions = relation.functions if isinstance(relation, FunctionRelation) else ()
    return [
        relation.name,
        *describe_code(type(relation)),
        relation.content_digest(),
        {name: describe_value(getattr(relation, name)) for name in names},
        [describe_value(each) for each in functions],
    ]


def _strategy(strategy: PositiveStrategy) -> list[Any]:
    values = {
        name: describe_value(value) for name, value in strategy.get_params(deep=False).items()
    }
    return [*describe_code(type(strategy)), values]


def _task(task: Task) -> list[Any]:
    values = {name: describe_value(value) for name, value in vars(task).items()}
    return [*describe_code(type(task)), values]


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
    split: Any = None,
    settings: FitSettings | None = None,
) -> PreparedFit:
    """Prepare a fit of `model`; refuses data, split and memory that cannot be used.

    `graph` is a Graph or what `as_graph` makes one of; `split` is a split, or the training nodes as
    a mask or as numbers. Without a split, the nodes of a PyG `Data`'s `train_mask` are trained on,
    or else all labels or links. `settings` are those of the model, where they are known already.
    """
    settings = settings or FitSettings.of(model)
    given, graph = graph, as_graph(graph, warn_masks=False)
    task = settings.task.name
    if split is not None:
        split = as_split(split, graph, task)
    elif is_of(given, "torch_geometric") and graph.labels is not None and task != "links":
        split = masks_of(given, graph)
    data = _training_data(graph, split, settings)
    return prepare_data(settings, graph, split, data)


def prepare_data(
    settings: FitSettings,
    graph: Graph,
    split: NodeSplit | LinkSplit | None,
    data: TrainingData,
) -> PreparedFit:
    """Prepare a fit on the training data of `graph`; refuses an encoder that cannot embed it."""
    if settings.config.hidden_parts:
        check_metric(settings.config.metric, "nodes", data.graph)
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


def _training_data(
    graph: Graph, split: NodeSplit | LinkSplit | None, settings: FitSettings
) -> TrainingData:
    """The training data of the graph; refuses a split of the wrong kind."""
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
    check_seed(model.random_state)
    if model.width is not None:
        if is_number(model.width) and not model.width >= 1:
            raise UsageError(f"width={model.width} must be at least 1.")
        check_whole("width", model.width, 1)
    _check_kinds(model)
    if model.sampler not in ("xtcl", "paper"):
        raise UsageError(f"sampler='{model.sampler}' must be 'xtcl' or 'paper'.")
    name = encoder_name(model.encoder)
    if isinstance(model.recipe, str):
        config = task.named_recipe(model.recipe, name)
    else:
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
        sampler["quantiles"] = check_quantiles(sampler["quantiles"])
    training = _given(model, "epochs", "learning_rate", "negatives", "temperature", "similarity")
    width = _given(model, "width")

    def changed(encoder_config: EncoderConfig) -> EncoderConfig:
        return replace(
            encoder_config,
            encoder=encoder_config.encoder | width,
            training=replace(encoder_config.training, **training),
        )

    config = replace(config, sampler=replace(config.sampler, **sampler))
    config = replace(config.map_encoders(changed), **_given(model, "crossfit", "metric"))
    strategy = strategy_of(model)
    if strategy is not None:
        config = strategy.configure(config)
    elif isinstance(model.positives, Integral):
        config = replace(config, positives=int(model.positives))
    config = config.validated()
    check_metric(config.metric, "nodes")
    if model.metric is not None and task.name != "nodes":
        raise UsageError(f"metric='{model.metric}' is for nodes: leave it out for {task.name}.")
    if model.metric is not None and not config.hidden_parts:
        raise UsageError(
            f"metric='{model.metric}' is what hidden labels choose for, and this recipe asks none: "
            "give recipe='hidden-labels' (--config hidden-labels), too."
        )
    for ensemble in config.ensembles:
        for encoder_config in ensemble.encoders:
            check_encoder_options(model.encoder, encoder_config.encoder)
    return config


def _check_kinds(model: XTCL) -> None:
    """Refuse parameters that are not the objects they have to be."""
    for name, kind, remedy in (
        (
            "recipe",
            FitConfig,
            f"a FitConfig, such as that of resolved_recipe(), or one of {', '.join(RECIPES)}",
        ),
        ("metric", str, "a name, such as 'macro_f1'"),
        ("encoder_options", Mapping, "a dictionary, such as {'layers': 2}"),
    ):
        value = getattr(model, name)
        if name == "recipe" and isinstance(value, str) and value in RECIPES:
            continue
        if value is not None and not isinstance(value, kind):
            raise UsageError(f"{name}={value!r} must be {remedy}.")
    for name in ("use_labels", "verbose"):
        value = getattr(model, name)
        if isinstance(value, (bool, np.bool_)) or (name == "verbose" and value is None):
            continue
        hint = " None shows progress in notebooks alone." if name == "verbose" else ""
        raise UsageError(f"{name}={value!r} must be True or False.{hint}")
    check_progress(model.progress)


def strategy_of(model: XTCL) -> PositiveStrategy | None:
    """The strategy that `positives` names or is; None where it is a number of positives."""
    given = model.positives
    if isinstance(given, str):
        return make_strategy(given)
    if isinstance(given, PositiveStrategy):
        return given
    if given is None or is_whole(given):
        return None
    raise UsageError(
        f"positives={given!r} must be a number, a name such as 'uniform', or a PositiveStrategy."
    )


def _given(model: XTCL, *names: str) -> dict[str, Any]:
    """The parameters among `names` that are set."""
    return {name: getattr(model, name) for name in names if getattr(model, name) is not None}
