"""What docs/paper-to-code.md names is there, and nothing of the paper is left out."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from xtcl.lab.experiments.records import RecordFile
from xtcl.relations.registry import PAPER_RELATIONS, relation_title

ROOT = Path(__file__).parents[2]

PAGE = (ROOT / "docs" / "paper-to-code.md").read_text(encoding="utf-8")

NAMED = re.findall(r"`((?:src|tests|benchmarks|tools)/[\w./-]+)(?::([\w.]+))?`", PAGE)

ROWS = [
    [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip()[1:-1])]
    for line in PAGE.splitlines()
    if line.startswith("|") and not line.startswith(("|---", "| paper |"))
]


@cache
def symbols(path: Path) -> frozenset[str]:
    """What a module defines or assigns at its top."""
    found: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, ast.Assign):
            found |= {each.id for each in node.targets if isinstance(each, ast.Name)}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found.add(node.target.id)
    return frozenset(found)


@pytest.mark.parametrize(("file", "symbol"), sorted(set(NAMED)))
def test_what_is_named_is_there(file: str, symbol: str) -> None:
    path = ROOT / file
    assert path.exists()
    if symbol:
        assert symbol in symbols(path)
    else:
        assert path.is_dir() or file.startswith("tests/") or path.suffix == ".py"


def test_every_row_says_code_test_status_and_runs() -> None:
    assert len(ROWS) > 50
    for row in ROWS:
        assert len(row) == 5, row
        assert all(row), row
        paper, code, test, status, _ = row
        if code != "-":
            assert "`src/" in code, paper
            assert "`tests/" in test, paper
        assert status.startswith(("as ", "switch", "changed", "both", "cited")), paper


def test_nothing_of_the_paper_is_left_out() -> None:
    for what, last in (("Definition", 7), ("Equation", 6), ("Algorithm", 2), ("Table", 3)):
        for number in range(1, last + 1):
            assert f"{what} {number}" in PAGE
    assert "Equations 7 and 8" in PAGE
    for number in range(2, 6):  # the first is a sketch
        assert f"Figure {number}" in PAGE
    for kind in PAPER_RELATIONS:
        assert f":{kind.__name__}`" in PAGE


# Pages that say which relation leads, against the records of the figure.

LEADERS = {
    "nodes": "the attribute label distribution leads on Cora, PubMed, Computers and Photo, and "
    "the label distribution on CiteSeer",
    "links": "attribute similarity leads on Cora, CiteSeer and PubMed, PageRank on Computers and "
    "graph distance on Photo",
}


@pytest.mark.parametrize("task", LEADERS)
def test_the_leading_relations_are_those_of_the_records(task: str) -> None:
    words = {
        "attribute-label-distribution": "the attribute label distribution",
        "label-distribution": "the label distribution",
        "attribute-similarity": "attribute similarity",
        "pagerank": "PageRank",
        "graph-distance": "graph distance",
    }
    path = ROOT / "results" / "reproduction" / "importance" / "importance.jsonl"
    found: dict[str, set[str]] = {}
    for record in RecordFile(path).read().values():
        what = record["what"]
        if what["task"] == task and "sampler" not in what:
            weights = record["found"]
            best = max(weights, key=lambda name: weights[name]["importance"])
            found.setdefault(words[best], set()).add(what["dataset"])
            assert relation_title(best)
    said: dict[str, set[str]] = {}
    for part in re.split(r", (?=PageRank)|(?<=Photo), and | and (?=graph)", LEADERS[task]):
        relation, sets = re.split(r" leads on | on ", part)
        said[relation] = {name.lower() for name in re.findall(r"\w+", sets) if name != "and"}
    assert said == found


@pytest.mark.parametrize("page", ["reproduction.md", "relations/index.md"])
def test_the_pages_say_the_same(page: str) -> None:
    text = " ".join((ROOT / "docs" / page).read_text(encoding="utf-8").split())
    for sentence in LEADERS.values():
        assert sentence in text
