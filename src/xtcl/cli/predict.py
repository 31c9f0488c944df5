"""`xtcl predict`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from xtcl.cli.answer_output import check_new, check_no_input, load_run, tell
from xtcl.cli.errors import reported
from xtcl.cli.options import JsonOption, NewEdgesOption, NewNodesOption, RunFolder


@reported
def predict(
    run: RunFolder,
    out: Annotated[
        Path | None, typer.Option(help="File to write, .csv or .parquet; else CSV is printed.")
    ] = None,
    nodes: NewNodesOption = None,
    edges: NewEdgesOption = None,
    as_json: JsonOption = False,
) -> None:
    """The class of every node, how sure that is, and the chances of all classes.

    Example: xtcl predict runs/mine --out predictions.csv

    New nodes: xtcl predict runs/mine --nodes new.csv --edges new-edges.csv
    """
    from xtcl.answers.answer_file import check_file
    from xtcl.answers.new_nodes import predict_new
    from xtcl.answers.predictions import predictions

    if out is not None:
        check_file(out)
    check_new(nodes, edges)
    check_no_input(out, nodes, edges)
    model = load_run(run)
    table = predictions(model) if nodes is None else predict_new(model, nodes, edges)
    tell(table, "predictions", out, as_json)
