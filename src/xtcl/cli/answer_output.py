"""How tables of answers leave the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from xtcl.answers.answer_table import AnswerTable
    from xtcl.estimator import XTCL


def load_run(folder: Path) -> XTCL:
    """The model of a run, which reports progress on standard error."""
    from rich.console import Console

    from xtcl.cli.bars import Bars
    from xtcl.estimator import XTCL

    model = XTCL.load(folder)
    return model.set_params(progress=Bars(Console(stderr=True)))  # type: ignore[no-any-return]


def check_new(nodes: Path | None, edges: Path | None) -> None:
    """Refuse links of new nodes without the nodes."""
    from xtcl.errors import UsageError

    if nodes is None and edges is not None:
        raise UsageError("--edges are links of new nodes: name their table with --nodes, too.")


def check_no_input(out: Path | None, *inputs: Path | None) -> None:
    """Refuse to write over a table that the same command reads."""
    from xtcl.errors import UsageError

    for table in inputs:
        if out and table and out.exists() and table.exists() and out.samefile(table):
            raise UsageError(
                f"--out '{out}' is a table that is read, and would be lost: choose another name."
            )


def tell(table: AnswerTable, what: str, out: Path | None, as_json: bool) -> None:
    """Write the table to `out`, or print it, as CSV or as one JSON object."""
    from xtcl.answers.answer_file import write_answers

    if out is not None:
        write_answers(out, table)
        tell_written(out, len(next(iter(table.columns.values()))), as_json)
    elif as_json:
        typer.echo(json.dumps({what: table.rows()}))
    else:
        typer.echo(table.csv(), nl=False)


def tell_written(out: Path, rows: int, as_json: bool) -> None:
    """Say what was written: to machines on standard output, to people beside it."""
    if as_json:
        typer.echo(json.dumps({"out": str(out), "rows": rows}))
    else:
        typer.echo(f"{rows:,} rows written to {out}", err=True)
