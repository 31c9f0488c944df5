"""xtcl predict, embed, explain, links and report: the results of a run."""

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

from xtcl.cli.console import Bars, plain_table, printable, reported
from xtcl.cli.options import FullOption, JsonOption, NewEdgesOption, NewNodesOption, RunFolder
from xtcl.errors import UsageError

if TYPE_CHECKING:
    from xtcl.estimator import XTCL
    from xtcl.inference.explain import NodeExplanation, NodePrediction, PositiveEvidence
    from xtcl.inference.tables import ResultTable


_MAX_ROWS = 10
"""Positives, neighbours and classes that `explain` lists; --json has all of them."""


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
    _check_new(nodes, edges)
    _check_no_input(out, nodes, edges)
    model = _load_run(run)
    table = predictions(model) if nodes is None else predict_new(model, nodes, edges)
    _print_table(table, "predictions", out, as_json)


@reported
def embed(
    run: RunFolder,
    out: Annotated[Path, typer.Option(help="File to write, .csv, .parquet or .npz.")],
    nodes: NewNodesOption = None,
    edges: NewEdgesOption = None,
    full: FullOption = False,
    as_json: JsonOption = False,
) -> None:
    """Write the embedding of every node: its id and up to 256 columns, z000, z001, ...

    An .npz file has the arrays `node` and `embedding`.

    Example: xtcl embed runs/mine --out embeddings.parquet

    New nodes: xtcl embed runs/mine --nodes new.csv --edges new-edges.csv --out new.npz
    """
    from xtcl.inference.predict import NewRows, embed_new
    from xtcl.inference.tables import EMBEDDING_SUFFIXES, check_file, names_of, write_embeddings

    check_file(out, EMBEDDING_SUFFIXES)
    _check_new(nodes, edges)
    _check_no_input(out, nodes, edges)
    model = _load_run(run)
    if nodes is None:
        embedding = model.embedding_ if full else model.compact_embedding_
        rows = NewRows(names_of(model.training_data_.graph), embedding)
    else:
        rows = embed_new(model, nodes, edges, full=full)
    write_embeddings(out, rows.names, rows.embedding, full=full)
    _report_written(out, len(rows.names), as_json)


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

    model = _load_run(run)
    u = model.node_number(node)
    v = None if other is None else model.node_number(other)
    if u == v:
        raise UsageError(f"'{node}' is one node; name two for a pair.")
    explained = explain_node(model, u) if v is None else explain_pair(model, u, v)
    if as_json:
        typer.echo(json.dumps(asdict(explained)))
        return
    if isinstance(explained, PositiveEvidence):
        parts = _pair_text(explained)
    else:
        parts = _node_text(explained)
    console = Console()
    for part in parts:
        # An id may look like markup; the terminal breaks long lines.
        console.print(part, markup=False, highlight=False, soft_wrap=isinstance(part, str))


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
    _check_no_input(out, pairs)
    model = _load_run(run)
    if pairs is None:
        _print_table(likely_links(model, k), "links", out, as_json)
    else:
        given = read_pairs(pairs, model.training_data_.graph)
        _print_table(score_pairs(model, given), "pairs", out, as_json)


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
    model = _load_run(run)
    place = run / "report.html" if out is None else out
    write_page(model, place, read_metrics(run))
    if as_json:
        typer.echo(json.dumps({"out": str(place), "bytes": place.stat().st_size}))
    else:
        typer.echo(f"Report written to {place}", err=True)


def _node_text(explained: NodeExplanation) -> Iterator[str | Table]:
    """The prediction of a node, its positives and its neighbours."""
    yield _prediction(explained.node)
    if explained.chances:
        likeliest = sorted(explained.chances.items(), key=lambda item: -item[1])[:_MAX_ROWS]
        yield printable("  " + ", ".join(f"{name} {chance:.3f}" for name, chance in likeliest))
    yield ""
    if explained.positives:
        what = "which training pulled it towards"
        if not explained.positives_count:
            what = "which the sampler finds alike; what predicts was not trained on them"
        yield f"Positives, {what} ({_listed(explained.positives)}):"
        yield _positives(explained.positives[:_MAX_ROWS])
    else:
        yield "Positives: none. No node is likely enough to be alike; its own attributes decide."
    yield ""
    if not explained.neighbours:
        yield "Neighbours: none. It has no links that training saw."
        return
    classes = _class_counts(explained.neighbours)
    yield f"Neighbours ({_listed(explained.neighbours)}){': ' if classes else ''}{classes}"
    for neighbour in explained.neighbours[:_MAX_ROWS]:
        yield f"  {_prediction(neighbour)}"


def _pair_text(pair: PositiveEvidence) -> Iterator[str | Table]:
    """The probability that two nodes are alike, and the weight of every relation in it."""
    yield _prediction(pair.node)
    yield _prediction(pair.other)
    linked = "Linked" if pair.is_linked else "Not linked"
    chosen = "a positive" if pair.is_positive else "no positive"
    yield f"{linked}; the second is {chosen} of the first."
    if pair.link_score is not None:
        yield f"Score of a link between them: {pair.link_score:.3f}"
    yield ""
    yield f"Alike for the task with a chance of {pair.probability:.3f}; pattern {pair.pattern}."
    yield f"Log-odds: {pair.base:+.2f} at the start, and what each relation adds:"
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

    # A run for links has no classes.
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


def _prediction(node: NodePrediction) -> str:
    return printable(f"{node.node}: {_class(node)}" if _class(node) else str(node.node))


def _class(node: NodePrediction) -> str:
    if node.known is not None:
        differs = node.predicted not in (None, node.known)
        but = f", though {node.predicted} is predicted ({node.probability:.2f})" if differs else ""
        return f"{node.known} (known{but})"
    return "" if node.predicted is None else f"{node.predicted} (predicted, {node.probability:.2f})"


def _class_counts(neighbours: Sequence[NodePrediction]) -> str:
    """The classes of the neighbours with their numbers, the most frequent first."""
    classes = Counter(
        of.predicted if of.known is None else of.known for of in neighbours if _class(of)
    )
    return printable(", ".join(f"{count} {name}" for name, count in classes.most_common(_MAX_ROWS)))


def _listed(items: Sequence[object]) -> str:
    return str(len(items)) if len(items) <= _MAX_ROWS else f"the first {_MAX_ROWS} of {len(items)}"


def _load_run(folder: Path) -> XTCL:
    """Load the model of a run; it reports progress on standard error."""
    from xtcl.estimator import XTCL

    model = XTCL.load(folder)
    return model.set_params(progress=Bars(Console(stderr=True)))  # type: ignore[no-any-return]


def _check_new(nodes: Path | None, edges: Path | None) -> None:
    """Refuse edges of new nodes without a table of the nodes."""
    if nodes is None and edges is not None:
        raise UsageError("--edges are links of new nodes: name their table with --nodes, too.")


def _check_no_input(out: Path | None, *inputs: Path | None) -> None:
    """Refuse to overwrite a table that the same command reads."""
    for table in inputs:
        if out and table and out.exists() and table.exists() and out.samefile(table):
            raise UsageError(
                f"--out '{out}' is a table that is read, and would be lost: choose another name."
            )


def _print_table(table: ResultTable, key: str, out: Path | None, as_json: bool) -> None:
    """Write the table to `out`, or print it as CSV or as one JSON object with this key."""
    from xtcl.inference.tables import write_table

    if out is not None:
        write_table(out, table)
        _report_written(out, len(next(iter(table.columns.values()))), as_json)
    elif as_json:
        typer.echo(json.dumps({key: table.rows()}))
    else:
        typer.echo(table.csv(), nl=False)


def _report_written(out: Path, rows: int, as_json: bool) -> None:
    """Report what was written: as JSON on standard output, or as text on standard error."""
    if as_json:
        typer.echo(json.dumps({"out": str(out), "rows": rows}))
    else:
        typer.echo(f"{rows:,} rows written to {out}", err=True)
