"""The folder of a run: everything about one fit, written by `write_run` and read by `read_run`.

| file | content |
|---|---|
| `config.toml` | every setting, resolved |
| `split.json` | which nodes or links are for training and for the test |
| `test_labels.json` | labels of the test nodes, for the report |
| `metrics.json` | scores on the test side, and the seconds the fit took |
| `relation_weights.json`, `.png` | the weight of each relation |
| `model/` | the model, which `XTCL.load` reads |
| `embeddings.parquet` | a row for each node: `node`, `z000`, `z001`, ...; see `write_run` |
| `events.jsonl` | relations left out, and the loss of every encoder and epoch |
| `report.html` | the page that `xtcl report` writes |

Only `metrics.json`, `test_labels.json`, the test part of `split.json` and the page depend on the
test side. On a CPU everything but the seconds repeats to the byte. `metrics.json` is written last,
so a folder that has it is complete.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from xtcl.config import FitConfig, to_builtin
from xtcl.errors import DataError, UsageError
from xtcl.files import atomic_path
from xtcl.graph.splits import LinkSplit, NodeSplit
from xtcl.inference.tables import names_of, write_embeddings
from xtcl.relations.registry import make_relation, relation_names
from xtcl.relations.relation import Relation
from xtcl.report.weights import draw_weights
from xtcl.runs.config_file import recipe_tables, to_toml
from xtcl.runs.model_files import (
    load_model,
    plain_parameters,
    read_description,
    refuse_own_head,
    refusing_damage,
    refusing_settings,
    save_model,
)
from xtcl.runs.stored_strategy import read_strategy

if TYPE_CHECKING:
    from torch import nn

    from xtcl.estimator import XTCL
    from xtcl.tasks.blend import Blend
    from xtcl.tasks.task import Task


CHECKPOINTS = "checkpoint"
"""Folder with the intermediate results of an unfinished fit."""

_TEST_LABELS = "test_labels.json"


def write_run(
    model: XTCL,
    folder: str | PathLike[str],
    *,
    split: NodeSplit | LinkSplit | None = None,
    metrics: Mapping[str, object] | None = None,
    full: bool = False,
) -> None:
    """Write everything about a fit into `folder`; see the top of this file for what is in it.

    The file of embeddings has the compact one. With `full` it has the full one, in the columns
    `node` and `embedding`, a list of numbers: Parquet is slow with thousands of columns.
    """
    refuse_own_head(model)
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    for stale in ("metrics.json", "split.json", "report.html"):  # of an earlier run
        (place / stale).unlink(missing_ok=True)
    graph = model.training_data_.graph
    _write(place / "config.toml", config_text(model))
    if split is not None:
        _write(place / "split.json", json.dumps(split.to_json()))
    _write_test_labels(place, model.test_labels_ if split is model.split_ else None)
    weights = [weight.to_json() for weight in model.relation_weights_]
    _write(place / "relation_weights.json", json.dumps(weights, indent=2) + "\n")
    draw_weights(model.relation_weights_, place / "relation_weights.png", title=graph.name)
    rows = model.embedding_ if full else model.compact_embedding_
    path = place / "embeddings.parquet"
    write_embeddings(path, names_of(graph), rows, full=full, as_lists=full)
    _write(place / "events.jsonl", "".join(json.dumps(event) + "\n" for event in fit_events(model)))
    save_model(model, place / "model")
    _write(place / "metrics.json", json.dumps(dict(metrics or {}), indent=2) + "\n")


def read_run(
    kind: type[XTCL],
    folder: str | PathLike[str],
    *,
    encoder: nn.Module | None = None,
    task: Task | None = None,
) -> XTCL:
    """Read the model of a run folder, as an instance of `kind`."""
    place = Path(folder) / "model"
    with refusing_damage(place):
        described = read_description(place)
        relations = [_stored_relation(stored, place) for stored in described["relations"]]
        model = kind(**described["parameters"])
        model.set_params(relations=relations, positives=read_strategy(model.positives))
        recipe = described["parameters"]["recipe"]
        if recipe is not None and not isinstance(recipe, str):
            with refusing_settings(place):
                model.set_params(recipe=FitConfig.from_dict(recipe))
        load_model(place, described, model, encoder, task)
        model.environment_ = described.get("environment", {})
    graph = model.training_data_.graph
    model.split_ = _read_split(Path(folder) / "split.json", graph.num_nodes)
    model.test_labels_ = _read_test_labels(Path(folder), model.split_, graph.num_classes)
    model.set_params(
        encoder=encoder if encoder is not None else model.encoder,
        task=task if task is not None else model.task,
    )
    return model


def _stored_relation(stored: dict[str, Any], place: Path) -> Relation:
    """The relation of a saved model; one of the user's own must be registered before."""
    name = stored["name"]
    if name not in relation_names():
        raise UsageError(
            f"The model in '{place}' uses the relation '{name}', which is not registered here: "
            f"call register_relation('{name}', ...) before you load the model."
        )
    with refusing_settings(place):
        return make_relation(name, **stored["parameters"])


def config_text(model: XTCL) -> str:
    """The resolved settings as TOML."""
    parameters = plain_parameters(model)
    chosen = ("task", "encoder", "relations", "sampler", "use_labels", "random_state")
    graph = model.training_data_.graph
    return to_toml(
        {
            "xtcl": {"version": model.environment_.get("xtcl", "unknown")},
            "graph": {"name": graph.name, "fingerprint": graph.fingerprint()},
            "fit": {name: parameters[name] for name in chosen},
            "memory": {"block_rows": model.sampler_.block_rows},
            **recipe_tables(model.recipe_),
            "plan": to_builtin(asdict(model.plan_)),
            **choice_table(model.choice_),
        }
    )


def choice_table(choice: Blend | None) -> dict[str, dict[str, object]]:
    """What hidden labels chose, as a table of `config.toml`; none where they chose nothing."""
    if choice is None:
        return {}
    members = [
        {
            "name": member.name,
            "weight": round(member.weight, 4),
            "log_loss": member.log_loss,
            "accuracy": member.accuracy,
        }
        for member in choice.members
    ]
    account = " ".join(choice.sentences())
    return {
        "choice": {"account": account, "hidden_labels": choice.num_hidden, "candidates": members}
    }


def fit_events(model: XTCL) -> list[dict[str, Any]]:
    """The graph, what was left out, and every epoch of a fit, in this order."""
    graph = model.training_data_.graph
    found: list[dict[str, Any]] = [{"event": "graph", **graph.summary()}]
    found += [
        {"event": "relation left out", "relation": name, "lacks": kinds}
        for name, kinds in model.sampler_.left_out_.items()
    ]
    found += [
        {"event": "index", "relation": name, "recall": recall}
        for name, recall in model.sampler_.index_recall_.items()
    ]
    found += [
        {"event": "epoch", "encoder": encoder, "epoch": epoch, "loss": loss}
        for encoder, curve in enumerate(model.loss_curves_, start=1)
        for epoch, loss in enumerate(curve, start=1)
    ]
    return found


def is_finished(out: Path) -> bool:
    """Whether `out` holds a complete run."""
    return (out / "model" / "model.json").is_file() and (out / "metrics.json").is_file()


def _is_interrupted(out: Path) -> bool:
    """Whether `out` holds the intermediate results of an unfinished fit."""
    return (out / CHECKPOINTS / "identity.json").is_file()


def check_out(out: Path, resume: bool) -> None:
    """Refuse a folder with files that `xtcl fit` did not write. Writes nothing."""
    existing = next((place for place in (out, *out.parents) if place.exists()), out)
    if existing.exists() and not existing.is_dir():
        raise UsageError(
            f"--out '{out}' cannot be a folder: '{existing}' is a file; choose another."
        )
    if is_finished(out):
        if not resume:
            raise UsageError(f"'{out}' holds a finished run; choose another --out, or remove it.")
    elif existing == out and any(out.iterdir()) and not _is_interrupted(out):
        raise UsageError(
            f"'{out}' holds files that `xtcl fit` did not write, and they are left as they are; "
            "choose a new or an empty folder for --out."
        )


def finished_metrics(out: Path, identity: str) -> dict[str, Any]:
    """The metrics of the finished run in `out`; refuses a run of another fit than `identity`."""
    path = out / "metrics.json"
    metrics = read_metrics(out)
    if not {"metric", "compared"} <= metrics.keys():
        raise DataError(f"'{path}' was not written by `xtcl fit`, or is damaged: remove '{out}'.")
    if metrics.get("identity") != identity:
        raise UsageError(
            f"'{out}' holds the finished run of another graph, seed or setting; choose another "
            "--out, or remove that folder."
        )
    return metrics


def read_metrics(out: Path) -> dict[str, Any]:
    """The metrics of the run in `out`; empty where the file is missing or cannot be read."""
    try:
        metrics = json.loads((out / "metrics.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return metrics if isinstance(metrics, dict) else {}


def _write_test_labels(folder: Path, labels: np.ndarray | None) -> None:
    """Write the labels. None removes those of an earlier run."""
    path = folder / _TEST_LABELS
    if labels is None:
        path.unlink(missing_ok=True)
        return
    with atomic_path(path) as temporary:
        temporary.write_text(json.dumps({"labels": labels.tolist()}), encoding="utf-8")


def _read_test_labels(
    folder: Path, split: NodeSplit | LinkSplit | None, num_classes: int
) -> np.ndarray | None:
    """Read what `_write_test_labels` wrote; None where there is no file."""
    path = folder / _TEST_LABELS
    if not isinstance(split, NodeSplit) or not path.is_file():
        return None
    with _refusing_file(path):
        labels = np.array(json.loads(path.read_text(encoding="utf-8"))["labels"])
        codes = labels.astype(np.int64)
    if codes.shape != split.test.shape or not np.isin(codes, np.arange(-1, num_classes)).all():
        raise DataError(
            f"'{path}' does not belong to the split beside it; fit and save the model again."
        )
    return codes


def _read_split(path: Path, num_nodes: int) -> NodeSplit | LinkSplit | None:
    """Read the split; None where the fit had none."""
    if not path.is_file():
        return None
    with _refusing_file(path):
        stored = json.loads(path.read_text(encoding="utf-8"))
        split = (LinkSplit if stored["kind"] == "links" else NodeSplit).from_json(stored)
    parts = (split.train, split.test)
    if any(part.size and (part.min() < 0 or part.max() >= num_nodes) for part in parts):
        raise DataError(
            f"'{path}' names nodes that the graph of {num_nodes:,} nodes does not have; fit and "
            "save the model again."
        )
    return split


@contextmanager
def _refusing_file(path: Path) -> Iterator[None]:
    """Turn an error from damaged contents into a `DataError` that names the file."""
    try:
        yield
    except (AttributeError, LookupError, OSError, TypeError, ValueError) as broken:
        raise DataError(
            f"'{path}' cannot be read ({type(broken).__name__}: {broken}); fit and save the model "
            "again."
        ) from broken


def _write(path: Path, text: str) -> None:
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
