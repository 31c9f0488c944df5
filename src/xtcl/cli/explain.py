"""`xtcl explain`."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console

from xtcl.cli.answer_output import load_run
from xtcl.cli.errors import reported
from xtcl.cli.explained import node_text, pair_text
from xtcl.cli.options import JsonOption, RunFolder
from xtcl.errors import UsageError


@reported
def explain(
    run: RunFolder,
    node: Annotated[str, typer.Argument(metavar="NODE", help="The id of a node.")],
    other: Annotated[
        str | None, typer.Argument(metavar="OTHER", help="Another: explain the pair.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Why a node gets its class: its positives and the relations behind them, its neighbours.

    Of two nodes: every relation's part in how alike they are taken to be.

    Example: xtcl explain runs/mine ann@x.org

    A pair: xtcl explain runs/mine ann@x.org bob@x.org
    """
    from xtcl.answers.explanations import Alike, explain_node, explain_pair

    model = load_run(run)
    u = model.node_number(node)
    v = None if other is None else model.node_number(other)
    if u == v:
        raise UsageError(f"'{node}' is one node; name two for a pair.")
    told = explain_node(model, u) if v is None else explain_pair(model, u, v)
    if as_json:
        typer.echo(json.dumps(asdict(told)))
        return
    console = Console()
    for part in pair_text(told) if isinstance(told, Alike) else node_text(told):
        # Ids are no markup, and a sentence is broken by the terminal.
        console.print(part, markup=False, highlight=False, soft_wrap=isinstance(part, str))
