"""The examples of the documentation run as they stand and print what the pages show."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from page_examples import run_page, same
from small_runs import shrink_recipes
from typer.main import get_command

from xtcl import block_model
from xtcl.cli.main import app
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
    "memory.md",
    "ranks.md",
    "relation-store.md",
    "top-k.md",
]
# These print nothing, so a small fit will do, and a small graph in the place of Cora.
SHRUNK = ["guides/large-graphs.md", "ranks.md", "relation-store.md", "top-k.md"]
STARTED = re.compile(r"^```console\n\$ torchrun (.*?)^```$", flags=re.DOTALL | re.M)


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
        small = block_model(120, num_classes=3, num_attributes=16, seed=0)
        monkeypatch.setattr("xtcl.graph.datasets.load_dataset", lambda *_: small)
    ran = 0
    # What torchrun starts is tried by the tests of ranks.
    for shown in run_page(STARTED.sub("", (DOCS / name).read_text(encoding="utf-8"))):
        assert same(shown.body, shown.now), shown.now
        ran += 1
    assert ran


def test_what_torchrun_starts_is_understood() -> None:
    group: Any = get_command(app)
    started = STARTED.findall((DOCS / "ranks.md").read_text(encoding="utf-8"))
    for command in started:
        _, _, ours = command.replace("\\\n", " ").partition(" -m xtcl ")
        name, *arguments = shlex.split(ours)
        assert group.commands[name].make_context(name, arguments).params["out"]
    assert len(started) == 2


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
