"""`xtcl embed`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from xtcl.cli.answer_output import check_new, check_no_input, load_run, tell_written
from xtcl.cli.errors import reported
from xtcl.cli.options import JsonOption, NewEdgesOption, NewNodesOption, RunFolder


@reported
def embed(
    run: RunFolder,
    out: Annotated[Path, typer.Option(help="File to write, .csv, .parquet or .npz.")],
    nodes: NewNodesOption = None,
    edges: NewEdgesOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write the embedding of every node: a row for each, with its id and the columns z0, z1, ...

    An .npz file has the arrays `node` and `embedding`.

    Example: xtcl embed runs/mine --out embeddings.parquet

    New nodes: xtcl embed runs/mine --nodes new.csv --edges new-edges.csv --out new.npz
    """
    from xtcl.answers.answer_file import check_file
    from xtcl.answers.embeddings import EMBEDDING_KINDS, write_embeddings
    from xtcl.answers.new_nodes import NewRows, embed_new
    from xtcl.answers.node_names import names_of

    check_file(out, EMBEDDING_KINDS)
    check_new(nodes, edges)
    check_no_input(out, nodes, edges)
    model = load_run(run)
    if nodes is None:
        rows = NewRows(names_of(model.training_side_.graph), model.embedding_)
    else:
        rows = embed_new(model, nodes, edges)
    write_embeddings(out, rows.names, rows.embedding)
    tell_written(out, len(rows.names), as_json)
