"""How tables of answers leave the command line."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from xtcl.cli.console import plain_table, printable, reported
from xtcl.cli.options import JsonOption, NewEdgesOption, NewNodesOption, RunFolder
from xtcl.errors import UsageError

if TYPE_CHECKING:
    from xtcl.estimator import XTCL
    from xtcl.inference.explain import NodeExplanation, NodePrediction, PositiveEvidence
    from xtcl.inference.tables import AnswerTable


def load_run(folder: Path) -> XTCL:
    """The model of a run, which reports progress on standard error."""
    from rich.console import Console

    from xtcl.cli.console import Bars
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


def print_answers(table: AnswerTable, what: str, out: Path | None, as_json: bool) -> None:
    """Write the table to `out`, or print it, as CSV or as one JSON object."""
    from xtcl.inference.tables import write_answers

    if out is not None:
        write_answers(out, table)
        report_written(out, len(next(iter(table.columns.values()))), as_json)
    elif as_json:
        typer.echo(json.dumps({what: table.rows()}))
    else:
        typer.echo(table.csv(), nl=False)


def report_written(out: Path, rows: int, as_json: bool) -> None:
    """Say what was written: to machines on standard output, to people beside it."""
    if as_json:
        typer.echo(json.dumps({"out": str(out), "rows": rows}))
    else:
        typer.echo(f"{rows:,} rows written to {out}", err=True)


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
    from xtcl.inference.predict import NewRows, embed_new
    from xtcl.inference.tables import EMBEDDING_KINDS, check_file, names_of, write_model_embeddings

    check_file(out, EMBEDDING_KINDS)
    check_new(nodes, edges)
    check_no_input(out, nodes, edges)
    model = load_run(run)
    if nodes is None:
        rows = NewRows(names_of(model.training_data_.graph), model.embedding_)
    else:
        rows = embed_new(model, nodes, edges)
    write_model_embeddings(out, rows.names, rows.embedding)
    report_written(out, len(rows.names), as_json)


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
    from xtcl.inference.explain import PositiveEvidence, explain_node, explain_pair

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
    for part in pair_text(told) if isinstance(told, PositiveEvidence) else node_text(told):
        # Ids are no markup, and a sentence is broken by the terminal.
        console.print(part, markup=False, highlight=False, soft_wrap=isinstance(part, str))


SHOWN = 10
"""Positives and neighbours that are listed; --json has all of them."""


def node_text(told: NodeExplanation) -> Iterator[str | Table]:
    """What is thought of a node, its positives and its neighbours."""
    yield _belief(told.node)
    if told.chances:
        likeliest = sorted(told.chances.items(), key=lambda item: -item[1])[:SHOWN]
        yield printable("  " + ", ".join(f"{name} {chance:.3f}" for name, chance in likeliest))
    yield ""
    if told.positives:
        yield f"Positives, which training pulled it towards ({_listed(told.positives)}):"
        yield _positives(told.positives[:SHOWN])
    else:
        yield "Positives: none. No node is likely enough to be alike; its own attributes decide."
    yield ""
    if not told.neighbours:
        yield "Neighbours: none. It has no links that training saw."
        return
    said = _said(told.neighbours)
    yield f"Neighbours ({_listed(told.neighbours)}){': ' if said else ''}{said}"
    for neighbour in told.neighbours[:SHOWN]:
        yield f"  {_belief(neighbour)}"


def pair_text(pair: PositiveEvidence) -> Iterator[str | Table]:
    """How alike two nodes are taken to be, and every relation's part in it."""
    yield _belief(pair.node)
    yield _belief(pair.other)
    linked = "Linked" if pair.is_linked else "Not linked"
    chosen = "a positive" if pair.is_positive else "no positive"
    yield f"{linked}; the second is {chosen} of the first."
    if pair.link_score is not None:
        yield f"Score of a link between them: {pair.link_score:.3f}"
    yield ""
    yield f"Alike for the task with a chance of {pair.probability:.3f}; pattern {pair.pattern}."
    yield f"Log-odds: {pair.base:+.2f} to begin with, and what each relation adds:"
    yield _signals(pair)


def _signals(pair: PositiveEvidence) -> Table:
    from xtcl.relations.registry import relation_title

    numbers = ("similarity", "threshold", "weight")
    table = plain_table("relation", *numbers, "stands out", numbers=numbers)
    for signal in pair.signals:
        table.add_row(
            relation_title(signal.relation),
            f"{signal.similarity:.4g}",
            ", ".join(f"{bar:.4g}" for bar in signal.thresholds),
            f"{signal.weight:+.2f}",
            "yes" if signal.level == len(signal.thresholds) else "in part" if signal.level else "",
        )
    return table


def _positives(positives: Sequence[PositiveEvidence]) -> Table:
    from xtcl.relations.registry import relation_title

    # A run for links knows of no classes.
    has_classes = any(_class(pair.other) for pair in positives)
    columns = ["  node", *(["class"] if has_classes else []), "alike", "because of"]
    table = plain_table(*columns, numbers=["alike"])
    for pair in positives:
        reasons = ", ".join(
            f"{relation_title(signal.relation)} {signal.weight:+.2f}" for signal in pair.reasons
        )
        chance = f"{pair.probability:.2f}" if pair.probability > 0.01 else f"{pair.probability:.1g}"
        known = [_class(pair.other)] if has_classes else []
        cells = (f"  {pair.other.node}", *known, chance, reasons)
        table.add_row(*(Text(printable(cell)) for cell in cells))
    return table


def _belief(of: NodePrediction) -> str:
    return printable(f"{of.node}: {_class(of)}" if _class(of) else str(of.node))


def _class(of: NodePrediction) -> str:
    if of.known is not None:
        wrong = of.predicted not in (None, of.known)
        doubt = f", though {of.predicted} is predicted ({of.probability:.2f})" if wrong else ""
        return f"{of.known} (known{doubt})"
    return "" if of.predicted is None else f"{of.predicted} (predicted, {of.probability:.2f})"


def _said(neighbours: Sequence[NodePrediction]) -> str:
    """How many neighbours are of which class."""
    classes = Counter(
        of.predicted if of.known is None else of.known for of in neighbours if _class(of)
    )
    return printable(", ".join(f"{count} {name}" for name, count in classes.most_common(SHOWN)))


def _listed(items: Sequence[object]) -> str:
    return str(len(items)) if len(items) <= SHOWN else f"the first {SHOWN} of {len(items)}"


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
    from xtcl.inference.links import likely_links, score_pairs
    from xtcl.inference.predict import read_pairs
    from xtcl.inference.tables import check_file

    if out is not None:
        check_file(out)
    check_no_input(out, pairs)
    model = load_run(run)
    if pairs is None:
        print_answers(likely_links(model, k), "links", out, as_json)
    else:
        asked = read_pairs(pairs, model.training_data_.graph)
        print_answers(score_pairs(model, asked), "pairs", out, as_json)


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
    from xtcl.inference.predict import predict_new, predictions
    from xtcl.inference.tables import check_file

    if out is not None:
        check_file(out)
    check_new(nodes, edges)
    check_no_input(out, nodes, edges)
    model = load_run(run)
    table = predictions(model) if nodes is None else predict_new(model, nodes, edges)
    print_answers(table, "predictions", out, as_json)


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
    from xtcl.report.page import check_place, write_page
    from xtcl.runs.run_folder import read_metrics

    if out is not None:
        check_place(out)
    model = load_run(run)
    place = run / "report.html" if out is None else out
    write_page(model, place, read_metrics(run))
    if as_json:
        typer.echo(json.dumps({"out": str(place), "bytes": place.stat().st_size}))
    else:
        typer.echo(f"Report written to {place}", err=True)
