"""The examples of the documentation run as they stand and print what the pages show."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from page_examples import run_page, same
from small_runs import shrink_recipes

from xtcl.relations.registry import forget_relation, relation_names

DOCS = Path(__file__).parents[1] / "docs"
PAGES = [
    "tutorial.md",
    "guides/links.md",
    "guides/no-links.md",
    "guides/large-graphs.md",
    "guides/own-relations.md",
    "guides/own-tasks.md",
    "guides/own-encoders.md",
]
SHRUNK = ["guides/large-graphs.md"]  # it prints nothing, so a small fit will do


@pytest.fixture
def _own_relations_are_forgotten() -> Iterator[None]:
    known = set(relation_names())
    yield
    for name in set(relation_names()) - known:
        forget_relation(name)


@pytest.mark.usefixtures("_own_relations_are_forgotten")
@pytest.mark.parametrize("name", PAGES)
def test_the_page(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    if name in SHRUNK:
        shrink_recipes(monkeypatch, epochs=2)
    ran = 0
    for shown in run_page((DOCS / name).read_text(encoding="utf-8")):
        assert same(shown.body, shown.now), shown.now
        ran += 1
    assert ran


@pytest.mark.parametrize(
    ("shown", "now", "agree"),
    [
        ("accuracy 85.02", "accuracy 85.03", True),
        ("accuracy 85.02", "accuracy 65.02", False),
        ("a 1  b\n", "a 1   b\n", True),
        ("one 1\n", "two 1\n", False),
        ("one\n", "one\ntwo\n", False),
        ("1,140 pairs", "1,141 pairs", True),
    ],
)
def test_last_digits_may_differ_and_nothing_else(shown: str, now: str, agree: bool) -> None:
    assert same(shown, now) is agree
