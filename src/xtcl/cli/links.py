"""`xtcl links`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from xtcl.cli.answer_output import check_no_input, load_run, tell
from xtcl.cli.errors import reported
from xtcl.cli.options import JsonOption, RunFolder


@reported
def links(
    run: RunFolder,
    k: Annotated[int, typer.Option("--k", min=1, help="How many for each node.")] = 5,
    pairs: Annotated[
        Path | None, typer.Option(help="Table with two columns of ids: score these pairs.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="File to write, .csv or .parquet; else CSV is printed.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """The likeliest missing links of every node, or scores of given pairs; of a run for links.

    Example: xtcl links runs/mine --k 3 --out likely.csv

    Given pairs: xtcl links runs/mine --pairs pairs.csv
    """
    from xtcl.answers.answer_file import check_file
    from xtcl.answers.likely_links import likely_links, score_pairs
    from xtcl.answers.named_pairs import read_pairs

    if out is not None:
        check_file(out)
    check_no_input(out, pairs)
    model = load_run(run)
    if pairs is None:
        tell(likely_links(model, k), "links", out, as_json)
    else:
        asked = read_pairs(pairs, model.training_side_.graph)
        tell(score_pairs(model, asked), "pairs", out, as_json)
