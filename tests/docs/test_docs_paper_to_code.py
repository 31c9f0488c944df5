"""What docs/paper-to-code.md names is there, and nothing of the paper is left out."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from xtcl.lab.experiments.comparison import TABLE_DATASETS, Cell, Cells, gather, p_value
from xtcl.lab.experiments.experiment import Record
from xtcl.lab.experiments.learning_curve import PERCENT
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
    for number in range(1, 6):
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


def records_of(experiment: str) -> list[Record]:
    path = ROOT / "results" / "reproduction" / experiment / f"{experiment}.jsonl"
    return [Record(**record) for record in RecordFile(path).read().values()]


SUPERVISED = {
    "table-nodes": ("gcn", "gat", "dgcn", "meta-pn", "cocos"),
    "table-links": ("gcn", "gat", "dgcn", "subgraph"),
}
"""The paper's supervised rows of each table."""


SELF_SUPERVISED = ("dgi", "sugrl", "asp", "polygcl")
"""The paper's unsupervised and self-supervised rows of both tables."""

OURS = ("xtcl-gcn", "xtcl-paper")


@cache
def cells_of(table: str) -> Cells:
    """The runs of a table, on its five splits."""
    return gather([each for each in records_of(table) if each.what["seed"] < 5])


def on_shared_splits(first: Cell, second: Cell) -> tuple[float, float]:
    """How far the first is ahead in the mean, and the p-value of that."""
    shared = first.figures.keys() & second.figures.keys()
    p = p_value(first, second)
    assert p is not None
    return float(np.mean([first.figures[seed] - second.figures[seed] for seed in shared])), p


def outcomes(table: str, ours: str, systems: Sequence[str]) -> tuple[int, ...]:
    """Pairs of a system and a data set: those better, ahead, behind and worse (p < 0.05)."""
    counts = {"better": 0, "ahead": 0, "behind": 0, "worse": 0}
    for data, system in product(TABLE_DATASETS, systems):
        gap, p = on_shared_splits(cells_of(table)[data, ours], cells_of(table)[data, system])
        names = ("better", "ahead") if gap > 0 else ("worse", "behind")
        counts[names[p >= 0.05]] += 1
    return tuple(counts.values())


def test_tests_against_self_supervised_rows_are_those_of_the_runs() -> None:
    tables = ("table-nodes", "table-links")
    assert {each: outcomes(*each, SELF_SUPERVISED) for each in product(tables, OURS)} == {
        ("table-nodes", "xtcl-gcn"): (17, 3, 0, 0),
        ("table-nodes", "xtcl-paper"): (0, 4, 4, 12),
        ("table-links", "xtcl-gcn"): (20, 0, 0, 0),
        ("table-links", "xtcl-paper"): (7, 1, 3, 9),
    }
    cells = cells_of("table-nodes")
    level = {
        (data, system)
        for data, system in product(TABLE_DATASETS, SELF_SUPERVISED)
        if on_shared_splits(cells[data, "xtcl-gcn"], cells[data, system])[1] >= 0.05
    }
    assert level == {("cora", "sugrl"), ("cora", "asp"), ("citeseer", "asp")}
    assert "17 of 20 for nodes (not against SUGRL on Cora and ASP on Cora and CiteSeer)" in PAGE
    assert "better in 0 of 20 and worse in 12 for nodes, better in 7 of 20 and worse in 9" in PAGE


@pytest.mark.parametrize(
    ("ours", "sign", "limit", "words"),
    [("xtcl-gcn", 1, 0.001, "ahead of the supervised GCN"), ("xtcl-paper", -1, 0.005, "behind it")],
)
def test_links_of_a_gcn_are_those_of_the_runs(
    ours: str, sign: int, limit: float, words: str
) -> None:
    cells = cells_of("table-links")
    found = [on_shared_splits(cells[data, ours], cells[data, "gcn"]) for data in TABLE_DATASETS]
    gaps = " / ".join(f"{sign * gap:.2f}" for gap, _ in found)
    assert f"{gaps} {words}, p < {limit} on all five" in PAGE
    assert max(p for _, p in found) < limit


@pytest.mark.parametrize(
    ("file", "exponent"),
    [
        ("reproduction/time/time.md", "1.69 (1.60 to 1.77)"),
        ("performance/exact-growth/exact_growth.md", "1.93 (1.74 to 2.12)"),
    ],
)
def test_growth_is_that_of_the_runs(file: str, exponent: str) -> None:
    assert f"V^{exponent}" in PAGE
    assert exponent in (ROOT / "results" / file).read_text(encoding="utf-8")


def test_tests_against_supervised_rows_are_those_of_the_runs() -> None:
    """Pairs of a system and a data set, on the five splits of the tables."""
    found = {}
    for table, systems in SUPERVISED.items():
        for data, method in product(TABLE_DATASETS, (*OURS, *systems)):
            assert len(cells_of(table)[data, method].figures) == 5
        for ours in OURS:
            found[table, ours] = outcomes(table, ours, systems)
    cells = cells_of("table-nodes")
    gcn, cocos = cells["pubmed", "gcn"], cells["cora", "cocos"]
    assert f"{gcn.mean:.2f}" == "86.61"
    for ours, mean in (("xtcl-gcn", "87.72"), ("xtcl-paper", "85.93")):
        assert f"{cells['pubmed', ours].mean:.2f}" == mean
        assert p_value(cells["pubmed", ours], gcn) == pytest.approx(0.001, abs=5e-4)
    assert f"{cells['cora', 'xtcl-gcn'].mean - cocos.mean:+.2f}" == "+0.34"
    assert p_value(cells["cora", "xtcl-gcn"], cocos) == pytest.approx(0.50, abs=0.005)
    assert found == {
        ("table-nodes", "xtcl-gcn"): (24, 1, 0, 0),
        ("table-nodes", "xtcl-paper"): (2, 5, 3, 15),
        ("table-links", "xtcl-gcn"): (20, 0, 0, 0),
        ("table-links", "xtcl-paper"): (1, 0, 2, 17),
    }
    assert "24 of 25 for nodes" in PAGE
    assert "20 of 20 for links" in PAGE
    assert "better in 2 of 25 and worse in 15 for nodes, better in 1 of 20 and worse in 17" in PAGE


def test_gaps_of_the_learning_curve_are_those_of_the_runs() -> None:
    figures: dict[tuple[int, str], list[float]] = {}
    for record in records_of("learning-curve"):
        place = record.what["percent"], record.what["method"]
        figures.setdefault(place, []).append(record.found["figure"])
    for other, form in (("naive-tcl", "+.2f"), ("scl", ".2f")):
        gaps = [np.mean(figures[p, "xtcl-gcn"]) - np.mean(figures[p, other]) for p in PERCENT]
        assert " / ".join(format(gap, form) for gap in gaps) in PAGE
