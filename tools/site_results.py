"""A hook of MkDocs: pages may link to results, which lie outside of docs/.

In the repository `../results/x.svg` leads there by itself. For the site the file is taken along, as
`results/x.svg`, and the link is led to it; tables in Markdown become pages. A link to a folder, or
to anything else that is no page or picture, becomes plain text.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
TAKEN = (".md", ".svg", ".png")
OWN = "results/"


def on_files(files: Files, config: Any) -> Files:
    """Take along all that pages link to, and what those link to in turn."""
    waiting = [(file.src_uri, "docs") for file in files.documentation_pages()]
    seen = set()
    while waiting:
        uri, base = waiting.pop()
        text = (ROOT / base / uri).read_text(encoding="utf-8")
        for place in _outside(text, uri, base):
            if place not in seen:
                seen.add(place)
                files.append(File.generated(config, place, abs_src_path=str(ROOT / place)))
                if place.endswith(".md"):
                    waiting.append((place, ""))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Lead links to where the site has the file."""
    uri = page.file.src_uri
    base = "" if page.file.generated_by else "docs"

    def led(found: re.Match[str]) -> str:
        mark, text, target = found.groups()
        place = _place(target, uri, base)
        if place is None:
            return found[0]
        if not _taken(place):
            return text
        return f"{mark}[{text}]({posixpath.relpath(place, posixpath.dirname(uri) or '.')})"

    return LINK.sub(led, markdown)


def _outside(text: str, uri: str, base: str) -> Iterator[str]:
    for _, _, target in LINK.findall(text):
        place = _place(target, uri, base)
        if place is not None and _taken(place):
            yield place


def _place(target: str, uri: str, base: str) -> str | None:
    """Where a link leads in the repository, if that is outside of docs/."""
    if re.match(r"[a-z]+:|#", target):
        return None
    start = posixpath.join(base, posixpath.dirname(uri))
    place = posixpath.normpath(posixpath.join(start, target.partition("#")[0]))
    return None if place.startswith("docs/") else place


def _taken(place: str) -> bool:
    return place.startswith(OWN) and place.endswith(TAKEN) and (ROOT / place).is_file()
