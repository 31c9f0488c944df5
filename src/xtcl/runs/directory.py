"""The run directory of a fit.

| file | what is in it |
|---|---|
| `config.toml` | every setting, resolved |
| `split.json` | which nodes or links trained and tested |
| `test_labels.json` | the labels of the test nodes, for the report |
| `metrics.json` | scores on the test side, and the seconds the fit took |
| `relation_weights.json`, `.png` | what the sampler learned about each relation |
| `model/` | the model, loadable with `XTCL.load` |
| `embeddings.parquet` | one row a node |
| `events.jsonl` | what happened: relations left out, every encoder's loss of every epoch |
| `report.html` | the page that `xtcl report` writes |

All but `metrics.json`, `test_labels.json`, the test part of `split.json` and the page follow from
the training side alone, and all but the seconds repeat to the byte on a CPU.
`metrics.json` comes last: a directory that has it is complete.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xtcl.errors import DataError
from xtcl.files import atomic_path
from xtcl.graph.link_split import LinkSplit
from xtcl.graph.node_split import NodeSplit
from xtcl.relations.registry import make_relation
from xtcl.report.weights_picture import draw_weights
from xtcl.runs.embeddings_file import write_embeddings
from xtcl.runs.held_out import read_held_out, refusing_file, write_held_out
from xtcl.runs.model_files import (
    load_model,
    plain_parameters,
    read_description,
    refuse_own_head,
    refusing_damage,
    refusing_settings,
    save_model,
)
from xtcl.runs.recipe_file import recipe_tables
from xtcl.runs.toml import to_toml
from xtcl.tasks.plain import plain
from xtcl.tasks.recipe import Recipe

if TYPE_CHECKING:
    from torch import nn

    from xtcl.estimator import XTCL
    from xtcl.tasks.task import Task


def write_run(
    model: XTCL,
    folder: str | PathLike[str],
    *,
    split: NodeSplit | LinkSplit | None = None,
    metrics: Mapping[str, object] | None = None,
) -> None:
    """Write everything about a fit into `folder`."""
    refuse_own_head(model)
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    for stale in ("metrics.json", "split.json", "report.html"):  # of an earlier run
        (place / stale).unlink(missing_ok=True)
    graph = model.training_side_.graph
    _write(place / "config.toml", config_text(model))
    if split is not None:
        _write(place / "split.json", json.dumps(split.to_json()))
    write_held_out(place, model._test_labels if split is model._split else None)
    weights = [weight.to_json() for weight in model.relation_weights_]
    _write(place / "relation_weights.json", json.dumps(weights, indent=2) + "\n")
    draw_weights(model.relation_weights_, place / "relation_weights.png", title=graph.name)
    write_embeddings(place / "embeddings.parquet", model.embedding_, graph)
    _write(place / "events.jsonl", "".join(json.dumps(event) + "\n" for event in events(model)))
    save_model(model, place / "model")
    _write(place / "metrics.json", json.dumps(dict(metrics or {}), indent=2) + "\n")


def read_run(
    kind: type[XTCL],
    folder: str | PathLike[str],
    *,
    encoder: nn.Module | None = None,
    task: Task | None = None,
) -> XTCL:
    """The model of a run directory, an estimator of the given kind."""
    place = Path(folder) / "model"
    with refusing_damage(place):
        described = read_description(place)
        relations = [make_relation(r["name"], **r["parameters"]) for r in described["relations"]]
        model = kind(**described["parameters"])
        model.set_params(relations=relations)
        if model.recipe is not None:
            with refusing_settings(place):
                model.set_params(recipe=Recipe.from_plain(described["parameters"]["recipe"]))
        load_model(place, described, model, encoder, task)
        model.environment_ = described.get("environment", {})
    graph = model.training_side_.graph
    model._split = read_split(Path(folder) / "split.json", graph.num_nodes)
    model._test_labels = read_held_out(Path(folder), model._split, graph.num_classes)
    model.set_params(
        encoder=encoder if encoder is not None else model.encoder,
        task=task if task is not None else model.task,
    )
    return model


def read_split(path: Path, num_nodes: int) -> NodeSplit | LinkSplit | None:
    """The split that `write_run` wrote; None where the fit had none."""
    if not path.is_file():
        return None
    with refusing_file(path):
        stored = json.loads(path.read_text(encoding="utf-8"))
        split = (LinkSplit if stored["kind"] == "links" else NodeSplit).from_json(stored)
    parts = (split.train, split.test)
    if any(part.size and (part.min() < 0 or part.max() >= num_nodes) for part in parts):
        raise DataError(
            f"'{path}' names nodes that the graph of {num_nodes:,} nodes does not have; fit and "
            "save the model again."
        )
    return split


def config_text(model: XTCL) -> str:
    """The resolved settings as TOML."""
    parameters = plain_parameters(model)
    chosen = ("task", "encoder", "relations", "sampler", "use_labels", "random_state")
    graph = model.training_side_.graph
    return to_toml(
        {
            "xtcl": {"version": model.environment_.get("xtcl", "unknown")},
            "graph": {"name": graph.name, "fingerprint": graph.fingerprint()},
            "fit": {name: parameters[name] for name in chosen},
            "memory": {"block_rows": model.sampler_.block_rows},
            **recipe_tables(model.recipe_),
            "plan": plain(asdict(model.plan_)),
        }
    )


def events(model: XTCL) -> list[dict[str, Any]]:
    """What happened in a fit, in order."""
    graph = model.training_side_.graph
    happened: list[dict[str, Any]] = [{"event": "graph", **graph.summary()}]
    happened += [
        {"event": "relation left out", "relation": name, "lacks": kinds}
        for name, kinds in model.sampler_.left_out_.items()
    ]
    happened += [
        {"event": "index", "relation": name, "recall": recall}
        for name, recall in model.sampler_.index_recall_.items()
    ]
    happened += [
        {"event": "epoch", "encoder": encoder, "epoch": epoch, "loss": loss}
        for encoder, curve in enumerate(model.loss_curves_, start=1)
        for epoch, loss in enumerate(curve, start=1)
    ]
    return happened


def _write(path: Path, text: str) -> None:
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
