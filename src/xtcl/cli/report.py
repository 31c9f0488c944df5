"""`xtcl report`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from xtcl.cli.answer_output import load_run
from xtcl.cli.errors import reported
from xtcl.cli.options import JsonOption, RunFolder
from xtcl.cli.run_folder import read_metrics


@reported
def report(
    run: RunFolder,
    out: Annotated[
        Path | None, typer.Option(help="File to write; else report.html in RUN.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """One HTML file about a run, to show to others: what mattered, how good, where to be careful.

    It needs no network and no server; open it in a browser, or print it.

    Example: xtcl report runs/mine

    Elsewhere: xtcl report runs/mine --out page.html
    """
    from xtcl.report.page.page import check_place, write_page

    if out is not None:
        check_place(out)
    model = load_run(run)
    place = run / "report.html" if out is None else out
    write_page(model, place, read_metrics(run))
    if as_json:
        typer.echo(json.dumps({"out": str(place), "bytes": place.stat().st_size}))
    else:
        typer.echo(f"Report written to {place}", err=True)
