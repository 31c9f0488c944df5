"""`xtcl datasets`, `relations`, `methods`, `recipe` and `doctor`: what is available."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
from dataclasses import asdict
from datetime import datetime
from pathlib import Path

import typer
from rich.console import Console

from xtcl.cli import options
from xtcl.cli.console import plain_table, reported
from xtcl.errors import DataError

_REQUIRED_PACKAGES = (
    "torch",
    "torch_geometric",
    "numpy",
    "scipy",
    "scikit-learn",
    "safetensors",
    "pyarrow",
    "typer",
    "rich",
    "jinja2",
    "matplotlib",
)
OPTIONAL_PACKAGES = {
    "networkx": "NetworkX graphs",
    "pandas": "frames as tables",
    "polars": "frames as tables",
    "faiss-cpu": "--index-past",
    "optuna": "xtcl tune",
    "xgboost": "benchmarks",
}


@reported
def datasets(data: options.DataOption = None, as_json: options.JsonOption = False) -> None:
    """List the data sets, and which of them can be loaded here.

    Example: xtcl datasets --data path/to/datasets
    """
    from xtcl.graph.datasets.load import describe_datasets

    found = describe_datasets(data)
    if as_json:
        typer.echo(json.dumps([asdict(info) for info in found]))
        return
    numbers = ("nodes", "edges", "classes", "attributes")
    table = plain_table("name", *numbers, "here", "source", numbers=numbers)
    for info in found:
        figures = [f"{getattr(info, name):,}" for name in numbers]
        table.add_row(info.name, *figures, "yes" if info.available else "no", info.source)
    Console().print(table)


@reported
def relations(store: options.StoreOption = None, as_json: options.JsonOption = False) -> None:
    """List the relations (graph signals) and what each of them reads, or those kept in a store.

    Example: xtcl relations --store relations
    """
    if store is not None:
        _stored_relations(store, as_json)
        return
    from xtcl.relations.registry import make_relation, relation_names
    from xtcl.runs.model_files import relation_json

    found = [make_relation(name) for name in relation_names()]
    if as_json:
        described = [
            {"title": r.title, "reads": sorted(r.reads), **relation_json(r)} for r in found
        ]
        typer.echo(json.dumps(described))
        return
    table = plain_table("name", "title", "reads", "what it says")
    for relation in found:
        summary = (relation.__doc__ or "").strip().splitlines()
        table.add_row(
            relation.name,
            relation.title,
            ", ".join(sorted(relation.reads)),
            summary[0] if summary else "",
        )
    Console().print(table)


def _stored_relations(folder: Path, as_json: bool) -> None:
    from xtcl.relations.store.relation_store import RelationStore

    if not folder.is_dir():
        raise DataError(
            f"There is no relation store in '{folder}': name the folder that `xtcl fit --store` "
            "wrote to."
        )
    found = RelationStore(folder).listing()
    if as_json:
        typer.echo(json.dumps([asdict(entry) for entry in found]))
        return
    numbers = ("nodes", "pairs", "bytes")
    table = plain_table("relation", "parameters", *numbers, "rows", "last used", numbers=numbers)
    for entry in found:
        table.add_row(
            entry.relation,
            ", ".join(f"{name}={value}" for name, value in entry.parameters.items()),
            *(f"{getattr(entry, name):,}" for name in numbers),
            "all" if entry.rows == "all" else "some",
            f"{datetime.fromtimestamp(entry.last_used):%Y-%m-%d %H:%M:%S}",
        )
    Console().print(table)


@reported
def methods(as_json: options.JsonOption = False) -> None:
    """List the compared systems: those that `xtcl evaluate` can run, and one that is only timed.

    Example: xtcl methods
    """
    from xtcl.baselines import METHODS, Method
    from xtcl.lab.methods.naive_xgboost import NaiveXGBoost

    listed: list[tuple[type[Method | NaiveXGBoost], str]] = [
        *((kind, f"xtcl evaluate --method {name}") for name, kind in METHODS.items()),
        (NaiveXGBoost, "xtcl reproduce time"),
    ]
    if as_json:
        described = [
            {
                "name": kind.name,
                "title": kind.title,
                "tasks": sorted(kind.tasks),
                "command": command,
            }
            for kind, command in listed
        ]
        typer.echo(json.dumps(described))
        return
    table = plain_table("name", "title", "tasks", "what it is")
    for kind, _ in listed:
        summary = (kind.__doc__ or "").strip().splitlines()
        table.add_row(kind.name, kind.title, ", ".join(sorted(kind.tasks)) or "none", summary[0])
    Console().print(table)


@reported
def recipe(
    task: options.TaskOption = options.TaskName.nodes,
    encoder: options.EncoderOption = options.EncoderName.gcn,
    sampler: options.SamplerOption = "xtcl",
    epochs: options.EpochsOption = None,
    config: options.ConfigOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Print every setting of a fit, in the form that `--config` of fit and evaluate reads.

    Example: xtcl recipe --task links --encoder gat

    Into a file, to be edited: xtcl recipe > mine.toml
    """
    from xtcl.config import to_builtin
    from xtcl.estimator import XTCL
    from xtcl.runs.config_file import recipe_tables, to_toml

    stored = options.read_config(config, task.value, encoder.value, [], Console(stderr=True))
    model = XTCL(task.value, encoder.value, recipe=stored, sampler=sampler, epochs=epochs)
    resolved = model.resolved_recipe()
    made_for = {"task": task.value, "encoder": encoder.value}
    if as_json:
        typer.echo(json.dumps({**made_for, "recipe": to_builtin(asdict(resolved))}))
    else:
        typer.echo(to_toml({"fit": made_for, **recipe_tables(resolved)}), nl=False)


@reported
def doctor(data: options.DataOption = None, as_json: options.JsonOption = False) -> None:
    """Say what is installed, which devices there are, and what is missing.

    Example: xtcl doctor
    """
    found = describe_environment(data)
    if as_json:
        typer.echo(json.dumps(found))
        return
    console = Console()
    for section, entries in found.items():
        table = plain_table(section, "")
        for name, value in entries.items():
            table.add_row(f"  {name}", str(value))
        console.print(table)


def describe_environment(data: Path | None) -> dict[str, dict[str, str]]:
    """Versions, devices, memory and data sets, by section."""
    import torch

    import xtcl

    gpus = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return {
        "versions": {
            "xtcl": xtcl.__version__,
            "python": platform.python_version(),
            **{name: _version(name) for name in _REQUIRED_PACKAGES},
        },
        "optional": {
            name: f"{_version(name)} (for {use})" for name, use in OPTIONAL_PACKAGES.items()
        },
        "devices": {
            "cpu cores": str(os.cpu_count()),
            "torch threads": str(torch.get_num_threads()),
            "memory": _memory(),
            "gpu": ", ".join(gpus) or "none",
        },
        "data": _data(data),
    }


def _data(data: Path | None) -> dict[str, str]:
    """The data folder, or what is wrong with it, and the data sets that need no download."""
    from xtcl.errors import DataError
    from xtcl.graph.datasets.load import describe_datasets

    folder = str(data) if data else "none (set XTCL_DATA or give --data)"
    try:
        found = describe_datasets(data)
    except DataError as missing:
        folder = str(missing)
        found = describe_datasets(Path(__file__).parent)  # what is packaged or in the cache
    return {
        "folder": folder,
        "data sets here": ", ".join(info.name for info in found if info.available),
    }


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return f"missing: pip install {name}"


def _memory() -> str:
    if not hasattr(os, "sysconf"):
        return "unknown"
    return f"{os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') / 2**30:.1f} GB"
