"""A fitted model on disk: safetensors, JSON and an npz without pickle. Reading runs no stored code.

`model.json` has the schema version, the parameters, and the SHA-256 of every other file and of its
own content. A file that is missing, cut short or altered is refused before anything in it is used.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file
from torch import Tensor, nn

from xtcl.config import EnsembleConfig, FitConfig, to_builtin
from xtcl.errors import DataError, UsageError, XTCLError
from xtcl.files import atomic_path
from xtcl.graph.graph import Graph
from xtcl.inference.compact import CompactMap
from xtcl.nn import CUSTOM_ENCODER, encoder_factory, encoder_name
from xtcl.nn.encoder import encoder_inputs
from xtcl.nn.ensemble import EncoderEnsemble, LikelyLinks
from xtcl.relations.view import TrainingView
from xtcl.runs.stored_strategy import strategy_json
from xtcl.sampling.strategies import PositiveStrategy
from xtcl.sampling.xgsampler import XGSampler, counts_to_arrays, sampler_from_counts
from xtcl.tasks import TASKS, make_task
from xtcl.tasks.blend import read_node_head
from xtcl.tasks.fit import FittedTask
from xtcl.tasks.link_head import SignalHead
from xtcl.tasks.results import FittedEmbedding
from xtcl.tasks.task import Task
from xtcl.tasks.training_data import TrainingData

if TYPE_CHECKING:
    from xtcl.estimator import XTCL


SCHEMA = 4
"""The version of the files that are written."""


OLDEST_SCHEMA = 3
"""The oldest one that is read: `xtcl.renamed` has the names that its settings had."""


_HEADS: dict[str, Callable[[dict[str, np.ndarray]], Any]] = {
    "nodes": read_node_head,
    "links": SignalHead.from_tensors,
}
"""How the head of each task is read."""


_LOCAL_PARAMETERS = ("progress", "verbose", "device", "store")
"""Parameters that depend on the machine, and are not saved."""


MODEL_FILES = (
    "training_graph.npz",
    "encoder.safetensors",
    "tables.safetensors",
    "head.safetensors",
)


def refuse_own_head(model: XTCL) -> None:
    """Refuse a model whose head cannot be read back: that of a custom task."""
    name = model.fitted_task_.task.name
    if model.head_ is not None and name not in _HEADS:
        raise UsageError(
            f"The task '{name}' has a head of its own, and a file would not know how to make it "
            "again: keep what you need of embedding_ and predict_proba(), or fit anew."
        )


def save_model(model: XTCL, folder: Path) -> None:
    """Write the model's files, `model.json` last."""
    folder.mkdir(parents=True, exist_ok=True)
    data = model.training_data_
    data.graph.save(folder / "training_graph.npz")
    tables = {"embedding": model.embedding_, "positives": model.positives_}
    tables |= counts_to_arrays(model.sampler_) | model.compact_map_.to_tensors()
    tables |= {f"losses.{i}": np.array(curve) for i, curve in enumerate(model.loss_curves_)}
    if data.non_links is not None:
        tables["non_links"] = np.array(data.non_links)
    weights = {k: v.cpu().numpy() for k, v in model.encoder_.state_dict().items()}
    head = {} if model.head_ is None else model.head_.to_tensors()
    for name, tensors in (("encoder", weights), ("tables", tables), ("head", head)):
        with atomic_path(folder / f"{name}.safetensors") as temporary:
            save_file({k: np.asarray(v, order="C") for k, v in tensors.items()}, temporary)
    described: dict[str, object] = {
        "schema": SCHEMA,
        "parameters": plain_parameters(model),
        "recipe": to_builtin(asdict(model.recipe_)),
        "plan": to_builtin(asdict(model.plan_)),
        "environment": model.environment_,
        "block_rows": model.sampler_.block_rows,
        "relations": [relation_json(r) for r in model.sampler_.relations_],
        "sha256": {name: file_digest(folder / name) for name in MODEL_FILES},
    }
    described["digest"] = description_digest(described)
    with atomic_path(folder / "model.json") as temporary:
        temporary.write_text(json.dumps(described, indent=2) + "\n", encoding="utf-8")


def plain_parameters(model: XTCL) -> dict[str, object]:
    """The estimator's parameters that are saved, with names in the place of objects."""
    stored = {k: v for k, v in model.get_params(deep=False).items() if k not in _LOCAL_PARAMETERS}
    stored["task"] = model.fitted_task_.task.name
    stored["encoder"] = encoder_name(model.encoder)
    stored["relations"] = [relation.name for relation in model.sampler_.relations_]
    stored["random_state"] = model.random_state_
    if isinstance(model.positives, PositiveStrategy):
        stored["positives"] = strategy_json(model.positives)
    recipe = model.recipe
    stored["recipe"] = asdict(recipe) if isinstance(recipe, FitConfig) else recipe
    return {name: to_builtin(value) for name, value in stored.items()}


def relation_json(relation: Any) -> dict[str, object]:
    """A relation's name and parameters."""
    return {"name": relation.name, "parameters": to_builtin(asdict(relation))}


@contextmanager
def refusing_damage(folder: Path) -> Iterator[None]:
    """Turn an error from damaged contents into a `DataError` that names the folder."""
    try:
        yield
    except XTCLError:
        raise
    except (AttributeError, LookupError, OSError, RuntimeError, TypeError, ValueError) as broken:
        raise DataError(
            f"The model in '{folder}' cannot be read ({type(broken).__name__}: {broken}); fit and "
            "save it again."
        ) from broken


@contextmanager
def refusing_settings(folder: Path) -> Iterator[None]:
    """Turn an error about settings into a `DataError`: the file has them, not the user."""
    try:
        yield
    except UsageError as broken:
        raise DataError(
            f"The model in '{folder}' cannot be read. {broken} Fit and save it again."
        ) from broken


def load_model(
    folder: Path,
    described: dict[str, Any],
    model: XTCL,
    encoder: nn.Module | None,
    task: Task | None,
) -> None:
    """Fill `model`, made with the parameters in `described`, from the files of `folder`."""
    with refusing_settings(folder):
        recipe, ensemble = (
            FitConfig.from_dict(described["recipe"]),
            EnsembleConfig.from_dict(described["plan"]),
        )
    graph = Graph.load(folder / "training_graph.npz")
    tables = _tensors(folder, "tables")
    shapes = [tables[name].shape for name in ("embedding", "positives")]
    if any(len(shape) != 2 or shape[0] != graph.num_nodes for shape in shapes):
        raise DataError(
            f"The files in '{folder}' do not belong together: the graph has {graph.num_nodes} "
            f"nodes, and embedding and positives have the shapes {shapes}."
        )
    data = TrainingData(graph, tables.get("non_links"))
    view = TrainingView.of(graph, data.labelled)
    model.random_state_ = int(described["parameters"]["random_state"])
    sampler = XGSampler(
        model.relations,
        recipe.sampler,
        block_rows=described.get("block_rows"),
        random_state=model.random_state_,
    )
    sampler_from_counts(sampler, view, tables)
    fitted = FittedEmbedding(
        sampler,
        tables["positives"],
        ensemble,
        _encoder(folder, model, ensemble, graph, encoder),
        torch.from_numpy(tables["embedding"]),
        tuple(tuple(map(float, tables[f"losses.{i}"])) for i in range(len(ensemble.encoders))),
    )
    known = task if task is not None else _task(folder, described["parameters"]["task"])
    kind = _HEADS.get(known.name)
    head = None if kind is None else kind(_tensors(folder, "head"))
    model.recipe_ = recipe
    model.set_fitted(FittedTask(known, fitted, head, graph.num_classes), data)
    compact_map = CompactMap.from_tensors(tables)
    if compact_map is not None:  # else it is fitted again, from the embedding and the head
        model.compact_map_ = compact_map


def read_description(folder: Path) -> dict[str, Any]:
    """Read `model.json`, and check the digest of every file it names."""
    place = folder / "model.json"
    if not place.is_file():
        raise DataError(
            f"There is no model in '{folder}': model.json is missing. Name the folder that `xtcl "
            "fit --out` or `save` wrote."
        )
    try:
        described: dict[str, Any] = json.loads(place.read_text(encoding="utf-8"))
        schema, digest = described["schema"], described.get("digest")
    except (OSError, RecursionError, ValueError, KeyError, TypeError) as broken:
        raise DataError(
            f"'{place}' is damaged ({broken}); fit and save the model again."
        ) from broken
    if isinstance(schema, int) and not OLDEST_SCHEMA <= schema <= SCHEMA:
        newer = ("a newer", "Update xtcl to read it.")
        age, remedy = newer if schema > SCHEMA else ("an older", "Fit and save the model again.")
        raise DataError(
            f"'{folder}' was written by {age} xtcl (schema {schema}; this one reads "
            f"{OLDEST_SCHEMA} to {SCHEMA}). {remedy}"
        )
    if digest != description_digest(described):
        raise DataError(f"'{place}' is not as it was saved; fit and save the model again.")
    for name in MODEL_FILES:
        if not (folder / name).is_file() or file_digest(folder / name) != described["sha256"][name]:
            raise DataError(
                f"'{folder / name}' is missing or not as it was saved; fit and save the model "
                "again, or copy the whole folder anew."
            )
    return described


def _task(folder: Path, name: str) -> Task:
    if name not in TASKS:
        raise UsageError(
            f"The model in '{folder}' has a task of its author's own ('{name}'): load it with "
            "XTCL.load(folder, task=ThatTask(...))."
        )
    return make_task(name)


def _encoder(
    folder: Path, model: XTCL, ensemble: EnsembleConfig, graph: Graph, own: nn.Module | None
) -> EncoderEnsemble:
    if own is None and model.encoder in (CUSTOM_ENCODER, "own"):  # "own" in files of release 0.1
        raise UsageError(
            f"The model in '{folder}' has an encoder of its author's own: load it with "
            "XTCL.load(folder, encoder=ThatModule(...))."
        )
    x, _ = encoder_inputs(graph, torch.device("cpu"))
    chosen = model.encoder if own is None else own
    encoders = [encoder_factory(chosen, x.shape[1], each.encoder)() for each in ensemble.encoders]
    weights_of = [each.weight for each in ensemble.encoders]
    weights: dict[str, Tensor] = {
        k: torch.from_numpy(v) for k, v in _tensors(folder, "encoder").items()
    }
    module = EncoderEnsemble(
        encoders,
        weights_of,
        ensemble.attributes,
        likely=_likely_links(folder, weights, graph.num_nodes),
        over_likely=[each.messages == "likely" for each in ensemble.encoders],
    ).eval()
    try:
        module.load_state_dict(weights)
    except RuntimeError as mismatch:
        reason = " ".join(str(mismatch).split())
        raise DataError(f"The weights in '{folder}' do not fit the encoder: {reason}") from mismatch
    return module


def _likely_links(folder: Path, weights: dict[str, Tensor], num_nodes: int) -> LikelyLinks | None:
    """The stored likely links; refuses what are no links between nodes of the graph."""
    links = weights.get("likely_links")
    if links is None:
        return None
    fits = links.dtype == torch.int64 and links.ndim == 2 and len(links) == 2
    if not fits or bool(((links < 0) | (links >= num_nodes)).any()):
        raise DataError(
            f"The tensor 'likely_links' in '{folder / 'encoder.safetensors'}' does not hold links "
            f"between the {num_nodes} nodes of the graph; fit and save the model again."
        )
    return LikelyLinks(links, num_nodes)


def _tensors(folder: Path, name: str) -> dict[str, np.ndarray]:
    try:
        return dict(load_file(folder / f"{name}.safetensors"))
    except SafetensorError as broken:
        raise DataError(
            f"'{folder / name}.safetensors' cannot be read ({broken}); fit and save again."
        ) from broken


def description_digest(described: dict[str, Any]) -> str:
    """The SHA-256 of `model.json`, without the digest in it."""
    rest = {name: value for name, value in described.items() if name != "digest"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def file_digest(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
