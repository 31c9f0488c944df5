"""The page of a comparison, from records made by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from xtcl.lab.experiments import draw_experiment
from xtcl.lab.experiments.comparison import Cell, NodeTable, gather, p_value, ranking
from xtcl.lab.experiments.experiment import Record
from xtcl.lab.experiments.statistics import DatasetStatistics
from xtcl.report.charts import DASH

VERSIONS = {"xtcl": "9", "code": "abc", "torch": "2"}
HARDWARE = {"gpu": "none", "cpu": "a CPU", "threads": 2}
FIGURES = {
    ("cora", "xtcl-gcn"): [86.0, 85.0, 87.0, 85.5, 86.5],
    ("cora", "gcn"): [84.0, 83.5, 84.9, 83.1, 84.4],
    ("cora", "logistic"): [60.0, 61.0],
    ("photo", "gcn"): [93.0],
}


def records() -> list[Record]:
    return [
        Record(
            {"dataset": dataset, "method": method, "seed": seed},
            {"figure": figure, "seconds": 2.0 + seed},
            3.0,
            VERSIONS,
            HARDWARE,
        )
        for (dataset, method), figures in FIGURES.items()
        for seed, figure in enumerate(figures)
    ]


def row(page: str, title: str) -> list[str]:
    (line,) = [
        line
        for line in page.split("First against second")[0].splitlines()
        if f"| {title} |" in line
    ]
    return [cell.strip() for cell in line.strip("|").split("|")][1:]


def test_the_page_says_who_is_first_and_by_how_much(tmp_path: Path) -> None:
    path = draw_experiment(NodeTable(), records(), tmp_path)
    page = path.read_text()
    error = np.std(FIGURES["cora", "xtcl-gcn"], ddof=1) / math.sqrt(5)
    assert row(page, "XTCL (GCN)") == [f"**86.00 ± {error:.2f}** ①*", DASH]
    assert row(page, "GCN")[0].endswith("②")
    assert row(page, "GCN")[1] == "**93.00** ① (1)"
    assert row(page, "Attributes + LR") == ["60.50 ± 0.50 (2)", DASH]  # lacks splits: no place
    p = stats.ttest_rel(FIGURES["cora", "xtcl-gcn"], FIGURES["cora", "gcn"]).pvalue
    assert f"| cora | XTCL (GCN) | GCN | +2.02 | {p:.3f} |" in page
    assert "| GCN | +1.97 | +0.41 |" in page  # minus the paper's 82.01 and 92.59
    assert "| GCN | 4.0 | 2.0 |" in page  # seconds
    assert "| median of the paper's others | 4.0 | 2.0 |" in page
    assert f"| median of all others | 3.2 | {DASH} |" in page  # of 4.0 and 2.5; one has no run
    assert "- 13 runs: no GPU; a CPU, 2 thread(s); xtcl 9 (code abc), torch 2" in page
    assert (tmp_path / "table-nodes.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (tmp_path / "table-nodes.svg").read_text()


def test_seconds_of_another_machine_do_not_count(tmp_path: Path) -> None:
    elsewhere = {"gpu": "a GPU", "cpu": "another", "threads": 8}
    moved = [
        replace(record, hardware=elsewhere)
        if record.what["method"] == "logistic" or record.what["seed"] == 4
        else record
        for record in records()
    ]
    page = draw_experiment(NodeTable(), moved, tmp_path).read_text()
    assert "| GCN | 3.5 | 2.0 |" in page
    assert f"| Attributes + LR | {DASH} | {DASH} |" in page
    assert "| median of the paper's others | 3.5 | 2.0 |" in page
    assert f"| median of all others | {DASH} | {DASH} |" in page  # one of them has no seconds
    assert row(page, "Attributes + LR") == ["60.50 ± 0.50 (2)", DASH]  # figures do


def test_threads_beside_a_gpu_do_not_make_another_machine(tmp_path: Path) -> None:
    def on(gpu: str) -> list[Record]:
        threads = {"xtcl-gcn": 5, "gcn": 5, "logistic": 4}
        return [
            replace(
                record,
                hardware=HARDWARE | {"gpu": gpu, "threads": threads[record.what["method"]]},
            )
            for record in records()
        ]

    page = draw_experiment(NodeTable(), on("a GPU"), tmp_path).read_text()
    assert f"| Attributes + LR | 2.5 | {DASH} |" in page
    assert f"| median of all others | 3.2 | {DASH} |" in page
    page = draw_experiment(NodeTable(), on("none"), tmp_path).read_text()
    assert f"| Attributes + LR | {DASH} | {DASH} |" in page  # a CPU is as quick as its threads


def test_a_quick_page_says_that_it_is_one(tmp_path: Path) -> None:
    part = [replace(record, what=record.what | {"nodes": 500}) for record in records()]
    page = draw_experiment(NodeTable(), part, tmp_path).read_text()
    assert "On 500 nodes of each data set" in page
    assert "Minus the paper's figure" not in page


def test_the_same_records_draw_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        draw_experiment(NodeTable(), records(), tmp_path / name)
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes(), path.name


def test_ranking_and_pairing() -> None:
    cells = gather(records())
    assert ranking(cells, "cora") == ["xtcl-gcn", "gcn"]
    assert cells["photo", "gcn"].error is None
    assert p_value(cells["cora", "gcn"], cells["photo", "gcn"]) is None  # one split in common
    shifted = Cell({0: 1.0, 1: 2.0}, {})
    assert p_value(shifted, Cell({0: 0.5, 1: 1.5}, {})) == 0.0
    assert p_value(shifted, shifted) == 1.0


@pytest.mark.parametrize(("nodes", "verdict"), [(2708, "as printed"), (2709, "differs")])
def test_the_statistics_page(tmp_path: Path, nodes: int, verdict: str) -> None:
    found = {"nodes": nodes, "edges": 10556, "classes": 7, "attributes": 1433}
    record = Record({"dataset": "cora"}, found, 0.1, VERSIONS, HARDWARE)
    page = draw_experiment(DatasetStatistics(), [record], tmp_path).read_text()
    assert f"| cora | {nodes:,} | 10,556 | 7 | 1,433 | {verdict} |" in page
