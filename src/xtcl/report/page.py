"""The page: the summary through the template, in one file."""

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
from xtcl.progress import Progress
from xtcl.report.charts import axis, polyline
from xtcl.report.data_health import DataHealth, data_health
from xtcl.report.facts import NodesToReview, RunFacts, escape_text, review_nodes
from xtcl.report.node_map import NodeMap, map_picture, node_map
from xtcl.report.scores import LinkTest, NodeTest, link_test, node_test
from xtcl.report.weights import RelationRow, relation_rows
from xtcl.report.words import SummaryText, percent, rough, summary_text

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

    from xtcl.estimator import XTCL


HARMFUL = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
"""What could end a script element, or a line of script, inside a text of JSON."""


def write_page(
    model: XTCL, path: str | PathLike[str], metrics: Mapping[str, Any] | None = None
) -> None:
    """Write the page of a fitted or loaded model, whole or not at all."""
    place = Path(path)
    check_place(place)
    summary = summarise(model, metrics)
    with (model.progress or Progress()).stage("writing the page", 2) as advance:
        text = render(summary)
        advance(1)
        with atomic_path(place) as temporary:
            temporary.write_text(text, encoding="utf-8")
        advance(1)


def check_place(path: Path) -> None:
    """Refuse a place where no page can be written; before any work, and writing nothing."""
    if path.suffix.lower() not in (".html", ".htm"):
        raise UsageError(f"The report '{path}' must end in .html.")
    if path.is_dir():
        raise UsageError(f"'{path}' is a folder; name a file in it for the report.")
    if not path.parent.is_dir():
        raise UsageError(f"There is no folder '{path.parent}' for the report; make it first.")


def render(summary: PageSummary) -> str:
    """The page as text."""
    from markupsafe import Markup

    loader = _environment().loader
    assert loader is not None  # noqa: S101 - for the type checker
    style, script = (loader.get_source(_environment(), name)[0] for name in ("page.css", "map.js"))
    # What is put in as it is: our own files, and JSON without the characters that end a script.
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
    """The text, escaped, with places where a long word may be broken."""
    from markupsafe import Markup, escape

    return Markup("<wbr>").join(escape(part) for part in re.findall(r"[^_./-]*[_./-]?", text))


def script_json(value: object) -> str:
    """JSON that is safe inside a script element."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character, written in HARMFUL.items():
        text = text.replace(character, written)
    return text


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=PackageLoader("xtcl.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters: dict[str, Callable[..., str]] = {
        "percent": percent,
        "rough": rough,
        "number": lambda number: f"{number:,}",
        "signed": lambda number: f"{number:+.2f}".replace("-", "\N{MINUS SIGN}"),
        "breakable": breakable,
    }
    made.filters |= filters
    made.globals |= {"axis": axis, "polyline": polyline}
    return made


@dataclass(frozen=True)
class Computed:
    """Lines of what was asked for, of the versions, and every setting as TOML."""

    settings: tuple[tuple[str, str], ...]
    versions: tuple[tuple[str, str], ...]
    config: str


def computed(model: XTCL, metrics: Mapping[str, Any]) -> Computed:
    """From the model, and the seconds that `metrics.json` may have."""
    from xtcl.runs.run_folder import config_text

    graph = model.training_data_.graph
    lines = [
        ("Graph", escape_text(graph.name)),
        ("Fingerprint of the graph", graph.fingerprint()[:16]),
        ("Task", model.fitted_task_.task.name),
        ("Encoder", model.encoder if isinstance(model.encoder, str) else "of the user's own"),
        ("Seed", str(model.random_state)),
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
    return f"{trained:,} {split.kind} trained, {tested:,} held out (seed {split.seed})"


@dataclass(frozen=True)
class PageSummary:
    """What there is to tell about a run; a part that does not apply is None or empty.

    `alike` is the share of all known pairs that are: what a relation's precision compares with.
    """

    name: str
    task: str
    words: tuple[SummaryText, ...]
    relations: tuple[RelationRow, ...]
    alike: float
    left_out: tuple[tuple[str, str], ...]
    map: NodeMap
    curves: tuple[tuple[float, ...], ...]
    nodes: NodeTest | None
    links: LinkTest | None
    look: NodesToReview
    data_health: DataHealth
    computed: Computed
    compared: tuple[tuple[str, float], ...]
    trained: int


def summarise(model: XTCL, metrics: Mapping[str, Any] | None = None) -> PageSummary:
    """The summary of a fitted or loaded model; `metrics` are those of `metrics.json`."""
    from xtcl.relations.registry import relation_title

    check_is_fitted(model)
    given = metrics or {}
    progress = model.progress or Progress()
    facts = RunFacts.of(model)
    task = model.fitted_task_.task.name
    relations = relation_rows(model.sampler_, progress)
    counts = model.sampler_.counts_.counts
    alike = float(counts[:, 1].sum() / max(counts.sum(), 1))
    with progress.stage("looking at nodes", 4) as advance:
        nodes, links = node_test(facts), link_test(model, facts)
        advance(1)
        look = review_nodes(facts)
        advance(1)
        state = data_health(facts, task)
        advance(1)
        places = node_map(facts)
        advance(1)
    compared = given.get("compared")
    return PageSummary(
        name=escape_text(facts.graph.name),
        task=task,
        words=summary_text(task, state, nodes, links, relations, alike, look),
        relations=relations,
        alike=alike,
        left_out=tuple(
            (escape_text(relation_title(name)), ", ".join(kinds))
            for name, kinds in model.sampler_.left_out_.items()
        ),
        map=places,
        curves=model.loss_curves_,
        nodes=nodes,
        links=links,
        look=look,
        data_health=state,
        computed=computed(model, given),
        compared=_figures(compared),
        trained=model.training_data_.graph.num_edges if task == "links" else len(facts.trained),
    )


def _figures(compared: object) -> tuple[tuple[str, float], ...]:
    """Scores of several methods on the same split; of one alone there is nothing to compare."""
    if not isinstance(compared, Mapping):
        return ()
    found = [(escape_text(name), figure) for name, figure in compared.items() if _is_number(figure)]
    return tuple(found) if len(found) > 1 else ()


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
