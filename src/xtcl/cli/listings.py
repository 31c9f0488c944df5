"""`xtcl datasets`, `xtcl relations`, `xtcl methods` and `xtcl doctor`: what there is."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import datetime
from pathlib import Path

import typer
from rich.console import Console

from xtcl.cli.errors import reported
from xtcl.cli.options import DataOption, JsonOption, StoreOption
from xtcl.cli.tables import plain_table
from xtcl.errors import DataError


@reported
def datasets(data: DataOption = None, as_json: JsonOption = False) -> None:
    """List the data sets, and which of them can be loaded here.

    Example: xtcl datasets --data path/to/datasets
    """
    from xtcl.graph.datasets import describe_datasets

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
def relations(store: StoreOption = None, as_json: JsonOption = False) -> None:
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
        summary = (type(relation).__doc__ or "").strip().splitlines()
        table.add_row(
            relation.name,
            relation.title,
            ", ".join(sorted(relation.reads)),
            summary[0] if summary else "",
        )
    Console().print(table)


def _stored_relations(folder: Path, as_json: bool) -> None:
    from xtcl.relations.store import RelationStore

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
def methods(as_json: JsonOption = False) -> None:
    """List the compared systems: those that `xtcl evaluate` can run, and one that is only timed.

    Example: xtcl methods
    """
    from xtcl.baselines.method import Method
    from xtcl.baselines.naive_xgboost import NaiveXGBoost
    from xtcl.baselines.registry import METHODS

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
def doctor(data: DataOption = None, as_json: JsonOption = False) -> None:
    """Say what is installed, which devices there are, and what is missing.

    Example: xtcl doctor
    """
    from xtcl.cli.environment import describe_environment

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
