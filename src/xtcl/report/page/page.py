"""The page: the summary through the template, in one file."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable, Mapping
from functools import cache
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xtcl.errors import UsageError
from xtcl.files import atomic_path
from xtcl.progress import Progress
from xtcl.report.page.drawing import axis, polyline
from xtcl.report.page.map_picture import map_picture
from xtcl.report.page.summary import PageSummary, summarise
from xtcl.report.page.words import percent, rough

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
        loader=PackageLoader("xtcl.report.page", "templates"),
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
