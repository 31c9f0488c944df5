"""The report of a run: one HTML file, made from a `PageSummary` by the templates."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xtcl.errors import UsageError, check_is_fitted
from xtcl.files import atomic_path
from xtcl.graph.splits import LinkSplit
from xtcl.progress import progress_of
from xtcl.report.charts import axis, polyline
from xtcl.report.data_health import DataHealth, data_health
from xtcl.report.facts import NodesToReview, RunFacts, escape_text, review_nodes
from xtcl.report.node_map import NodeMap, map_picture, node_map
from xtcl.report.scores import LinkTest, NodeTest, link_test, node_test
from xtcl.report.weights import RelationRow, relation_rows
from xtcl.report.words import SummaryText, percent, short_percent, summary_text

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

    from xtcl.estimator import XTCL


_SCRIPT_ESCAPES = {
    "<": "\\u003c",
    ">": "\\u003e",
    "&": "\\u0026",
    "\u2028": "\\u2028",
    "\u2029": "\\u2029",
}
"""Characters in JSON that could end a script element, or a line of script."""


@dataclass(frozen=True)
class Computed:
    """How the fit was computed: its main settings, the versions, and every setting as TOML."""

    settings: tuple[tuple[str, str], ...]
    versions: tuple[tuple[str, str], ...]
    config: str


@dataclass(frozen=True)
class PageSummary:
    """Everything the page shows of a run; a part that does not apply is None or empty.

    `base_rate` is the share of all known pairs that are alike: the precision of a relation that
    carries no signal.
    """

    name: str
    task: str
    points: tuple[SummaryText, ...]
    relations: tuple[RelationRow, ...]
    base_rate: float
    left_out: tuple[tuple[str, str], ...]
    map: NodeMap
    curves: tuple[tuple[float, ...], ...]
    nodes: NodeTest | None
    links: LinkTest | None
    review: NodesToReview
    data_health: DataHealth
    computed: Computed
    compared: tuple[tuple[str, float], ...]
    num_trained: int
    positives_are: str


def write_page(
    model: XTCL, path: str | PathLike[str], metrics: Mapping[str, Any] | None = None
) -> None:
    """Write the page of a fitted or loaded model. A failure leaves an older page as it was."""
    place = Path(path)
    check_place(place)
    summary = summarise(model, metrics)
    with progress_of(model).stage("writing the page", 2) as advance:
        text = render(summary)
        advance(1)
        with atomic_path(place) as temporary:
            temporary.write_text(text, encoding="utf-8")
        advance(1)


def check_place(path: Path) -> None:
    """Refuse a path that no page can be written to. Writes nothing."""
    if path.suffix.lower() not in (".html", ".htm"):
        raise UsageError(f"The report '{path}' must end in .html.")
    if path.is_dir():
        raise UsageError(f"'{path}' is a folder; name a file in it for the report.")
    if not path.parent.is_dir():
        raise UsageError(f"There is no folder '{path.parent}' for the report; make it first.")


def summarise(model: XTCL, metrics: Mapping[str, Any] | None = None) -> PageSummary:
    """Summarise a fitted or loaded model; `metrics` are those of `metrics.json`."""
    from xtcl.inference.explain import positives_count
    from xtcl.relations.registry import relation_title

    check_is_fitted(model)
    metrics = metrics or {}
    progress = progress_of(model)
    facts = RunFacts.of(model)
    task = model.fitted_task_.task.name
    relations = relation_rows(model.sampler_, progress)
    counts = model.sampler_.counts_.counts
    base_rate = float(counts[:, 1].sum() / max(counts.sum(), 1))
    with progress.stage("looking at nodes", 4) as advance:
        nodes, links = node_test(facts), link_test(model, facts)
        advance(1)
        review = review_nodes(facts)
        advance(1)
        health = data_health(facts, task)
        advance(1)
        positions = node_map(facts)
        advance(1)
    compared = metrics.get("compared")
    choice = () if model.choice_ is None else model.choice_.sentences()
    return PageSummary(
        name=escape_text(facts.graph.name),
        task=task,
        points=summary_text(task, health, nodes, links, relations, base_rate, review, choice),
        relations=relations,
        base_rate=base_rate,
        left_out=tuple(
            (escape_text(relation_title(name)), ", ".join(kinds))
            for name, kinds in model.sampler_.left_out_.items()
        ),
        map=positions,
        curves=model.loss_curves_,
        nodes=nodes,
        links=links,
        review=review,
        data_health=health,
        computed=computed(model, metrics),
        compared=_scores(compared),
        num_trained=model.training_data_.graph.num_edges if task == "links" else len(facts.trained),
        positives_are="the nodes that training pulled it towards"
        if positives_count(model)
        else "nodes that the sampler finds alike, which what predicts was not trained on",
    )


def _scores(compared: object) -> tuple[tuple[str, float], ...]:
    """Scores of several methods on the same split; empty if there is only one."""
    if not isinstance(compared, Mapping):
        return ()
    found = [(escape_text(name), score) for name, score in compared.items() if _is_number(score)]
    return tuple(found) if len(found) > 1 else ()


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def computed(model: XTCL, metrics: Mapping[str, Any]) -> Computed:
    """How the model was computed; `metrics` may have the seconds of the fit."""
    from xtcl.runs.run_folder import config_text

    graph = model.training_data_.graph
    lines = [
        ("Graph", escape_text(graph.name)),
        ("Fingerprint of the graph", graph.fingerprint()[:16]),
        ("Task", model.fitted_task_.task.name),
        ("Encoder", model.encoder if isinstance(model.encoder, str) else "of the user's own"),
        ("Seed", str(model.random_state_)),
        ("Split", _split(model)),
        ("Epochs", ", ".join(str(len(curve)) for curve in model.loss_curves_)),
    ]
    seconds = metrics.get("seconds")
    if isinstance(seconds, (int, float)):
        lines.append(("Time of the fit", f"{seconds:,.1f} seconds"))
    versions = tuple((name, escape_text(value)) for name, value in model.environment_.items())
    return Computed(tuple(lines), versions, config_text(model))


def _split(model: XTCL) -> str:
    split = model.split_
    if split is None:
        return "none: everything known was trained on"
    if isinstance(split, LinkSplit):
        trained, tested = split.train.shape[1], split.test.shape[1]
    else:
        trained, tested = len(split.train), len(split.test)
    drawn = "" if split.seed is None else f" (seed {split.seed})"
    return f"{trained:,} {split.kind} trained, {tested:,} held out{drawn}"


def render(summary: PageSummary) -> str:
    """The page as HTML."""
    from markupsafe import Markup

    loader = _environment().loader
    assert loader is not None  # noqa: S101 - for the type checker
    style, script = (loader.get_source(_environment(), name)[0] for name in ("page.css", "map.js"))
    # Not escaped by the template: files of this package, and JSON that `script_json` has escaped.
    return (
        _environment()
        .get_template("page.html")
        .render(
            s=summary,
            style=Markup(style),  # noqa: S704
            script=Markup(script),  # noqa: S704
            script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
            map_data=Markup(script_json(summary.map.to_json())),  # noqa: S704
            map_picture=map_picture(summary.map),
        )
    )


def breakable(text: str) -> Markup:
    """The text, escaped, with <wbr> after characters where a long word may be broken."""
    from markupsafe import Markup, escape

    return Markup("<wbr>").join(escape(part) for part in re.findall(r"[^_./-]*[_./-]?", text))


def script_json(value: object) -> str:
    """JSON that is safe inside of a script element."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character, escaped in _SCRIPT_ESCAPES.items():
        text = text.replace(character, escaped)
    return text


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("xtcl.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters: dict[str, Callable[..., str]] = {
        "percent": percent,
        "short_percent": short_percent,
        "number": lambda number: f"{number:,}",
        "signed": lambda number: f"{number:+.2f}".replace("-", "\N{MINUS SIGN}"),
        "breakable": breakable,
    }
    environment.filters |= filters
    environment.globals |= {"axis": axis, "polyline": polyline}
    return environment
