"""Whatever ids and classes are called, the page shows them as text and runs only its own script."""

from __future__ import annotations

import json
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import pytest
from page_runs import HOSTILE, few_resamples, hostile_fit

from xtcl.errors import NotFittedError, UsageError
from xtcl.estimator import XTCL
from xtcl.report.facts import MAX_TEXT_LENGTH, escape_text
from xtcl.report.page import breakable, render, script_json, summarise

__all__ = ["few_resamples"]
pytestmark = pytest.mark.usefixtures("few_resamples")


class Read(HTMLParser):
    """Elements, their attributes, the text, and what scripts hold."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text, self.scripts, self._open = "", list[str](), ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._open = tag

    def handle_endtag(self, tag: str) -> None:
        self._open = ""

    def handle_data(self, data: str) -> None:
        if self._open == "script":
            self.scripts.append(data)
        else:
            self.text += data


@pytest.mark.parametrize("task", ["nodes", "links"])
def test_hostile_names_are_text(task: str) -> None:
    page = render(summarise(hostile_fit(task)))
    read = Read(page)
    names = [tag for tag, _ in read.elements]
    assert names.count("script") == 2
    assert names.count("img") == 1
    assert "i" not in {tag for tag, attributes in read.elements if not attributes}
    assert not names.count("b")
    for _, attributes in read.elements:
        assert not any(name.startswith("on") for name in attributes)
        for name in ("src", "href"):
            target = attributes.get(name)
            assert target is None or target.startswith(("#", "data:image/png;base64,"))
    assert "<i>odd</i> & co" in read.text
    assert "{{" not in read.text
    data = json.loads(read.scripts[0])
    assert data["names"][:11] == [escape_text(name) for name in HOSTILE]
    assert all(len(name) <= MAX_TEXT_LENGTH for name in data["names"])
    page.encode()  # every character can be written


def test_a_page_says_of_itself_that_it_loads_nothing() -> None:
    page = render(summarise(hostile_fit("nodes")))
    assert "default-src 'none'" in page
    assert "http://" not in page
    assert "https://" not in page


def test_no_character_leaves_the_script() -> None:
    for start in range(0, 0x3000, 60):
        text = "".join(map(chr, range(start, start + 60))) + "\ud800"
        written = script_json({"names": [escape_text(text)]})
        assert not set("<>&\u2028\u2029") & set(written)
        assert json.loads(written)["names"] == [escape_text(text)]
        written.encode()
        marked = str(breakable(text))
        assert "<" not in marked.replace("<wbr>", "")
        assert unescape(marked.replace("<wbr>", "")) == text


def test_refusals(tmp_path: Path) -> None:
    model = hostile_fit("nodes")
    with pytest.raises(UsageError, match=r"must end in \.html"):
        model.report(tmp_path / "page.pdf")
    with pytest.raises(UsageError, match="There is no folder"):
        model.report(tmp_path / "none" / "page.html")
    (tmp_path / "folder.html").mkdir()
    with pytest.raises(UsageError, match="is a folder"):
        model.report(tmp_path / "folder.html")
    with pytest.raises(NotFittedError):
        XTCL().report(tmp_path / "page.html")
    assert [path.name for path in tmp_path.iterdir()] == ["folder.html"]
