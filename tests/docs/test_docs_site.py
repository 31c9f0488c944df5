"""The site builds without a warning, names all there is, and asks nothing of the network."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import dedent

import pytest
from site_formulas import readable
from small_runs import python

import xtcl
from xtcl.cli.main import app

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("site")
    build = ["-m", "mkdocs", "build", "--strict", "--config-file", str(ROOT / "mkdocs.yml")]
    done = python(*build, "--site-dir", str(place), NO_MKDOCS_2_WARNING="1")
    assert done.returncode == 0, done.stderr[-3000:]
    return place


@pytest.mark.slow
def test_nothing_is_fetched_when_it_is_read(site: Path) -> None:
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert not re.search(r"<(script|img|iframe)[^>]*\ssrc=\"?(https?:)?//", text), page.name
        assert not re.search(r"<link[^>]*stylesheet[^>]*href=\"?(https?:)?//", text), page.name


@pytest.mark.slow
def test_the_search_works_from_disk(site: Path) -> None:
    assert (site / "search" / "search_index.js").is_file()
    page = (site / "relations" / "link.html").read_text(encoding="utf-8")
    assert 'src="../iframe-worker.js"' in page
    assert "IFrameWorker" in (site / "iframe-worker.js").read_text(encoding="utf-8")


@pytest.mark.slow
def test_every_page_is_there_with_its_pictures(site: Path) -> None:
    assert (site / "tutorial.html").is_file()
    assert len(list((site / "relations").glob("*.svg"))) == 9
    # Results lie outside of docs/ and are taken along.
    assert (site / "results" / "reproduction" / "importance" / "importance.svg").is_file()
    assert "results/reproduction/table-nodes/table-nodes.svg" in (
        site / "reproduction.html"
    ).read_text(encoding="utf-8")


@pytest.mark.slow
def test_every_public_name_is_in_the_reference(site: Path) -> None:
    text = (site / "api.html").read_text(encoding="utf-8")
    for name in xtcl.__all__:
        if name != "__version__":
            assert re.search(rf'id="xtcl\.[\w.]*\b{name}"', text), name


@pytest.mark.slow
def test_every_command_is_in_the_reference(site: Path) -> None:
    text = (site / "commands.html").read_text(encoding="utf-8")
    for command in app.registered_commands:
        assert command.callback is not None
        assert f'id="xtcl-{command.name or command.callback.__name__}"' in text
    assert "&lt;!-- commands" not in text


# Docstrings as the site shows them.


def test_formulas_stand_apart() -> None:
    given = """\
        A loss.

        .. math:: L = \\sum_i x_i
                  + \\sum_j y_j

        .. math::
            M = 1

        with :math:`x_i` of node i.
        """
    assert readable(dedent(given)).rstrip() == dedent(
        """\
        A loss.

        ```latex
        L = \\sum_i x_i
        + \\sum_j y_j
        ```

        ```latex
        M = 1
        ```

        with `x_i` of node i."""
    )


def test_tables_keep_their_lines() -> None:
    table = "====  ====\none   two\n====  ====\n1     2\n3     4\n====  ====\n"
    assert readable(f"Before:\n\n{table}\nafter.") == f"Before:\n\n```text\n{table}```\n\nafter.\n"


def test_plain_text_stays() -> None:
    plain = "Nothing to see: a = b, :not math:.\n"
    assert readable(plain).strip() == plain.strip()
