"""The pages of the relations, their figures and their pictures say what the code does today."""

from __future__ import annotations

from pathlib import Path

import pytest
from page_examples import run_page, same
from relation_facts import FOLDER, facts, filled
from relation_pictures import draw

from xtcl.relations.registry import PAPER_RELATIONS
from xtcl.relations.relation import Relation

each = pytest.mark.parametrize("kind", PAPER_RELATIONS, ids=lambda kind: str(kind.name))


def page_of(kind: type[Relation]) -> str:
    return (FOLDER / f"{kind.name}.md").read_text(encoding="utf-8")


@each
def test_the_facts_are_those_of_the_docstring(kind: type[Relation]) -> None:
    told = facts(kind)
    assert {"Range", "Cost", "Citation"} <= set(told)
    assert any(word.startswith("Isolated node") for word in told)
    assert page_of(kind) == filled(page_of(kind), kind)
    assert told["Citation"] in page_of(kind)


@each
def test_the_picture_is_drawn_from_the_relation(kind: type[Relation]) -> None:
    kept = (FOLDER / f"{kind.name}.svg").read_text(encoding="utf-8")
    assert draw(kind()) == kept
    assert f"]({kind.name}.svg)" in page_of(kind)


@each
def test_the_four_node_example(kind: type[Relation]) -> None:
    (example,) = run_page(page_of(kind))
    assert kind.name in example.body
    assert same(example.body, example.now)


def test_the_index_lists_them_all() -> None:
    index = (Path(FOLDER) / "index.md").read_text(encoding="utf-8")
    assert all(f"]({kind.name}.md)" in index for kind in PAPER_RELATIONS)
    assert len(list(run_page(index))) == 1
