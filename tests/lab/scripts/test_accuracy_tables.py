"""Tables from made-up files: every figure in its place, and a dash where there is none."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest

from xtcl.lab.experiments.comparison import TABLE_DATASETS
from xtcl.lab.experiments.records import RecordFile
from xtcl.lab.scripts.accuracy_tables import BEST_OTHER, BEST_PUBLISHED, PAPER, main
from xtcl.lab.scripts.study import SPLITS
from xtcl.report.charts import DASH
from xtcl.tasks import TASKS

GPU = {"cpu": "Acme 9", "cpus": 16, "threads": 8, "gpu": "Big GPU"}
LAPTOP = {"cpu": "Acme 1", "cpus": 2, "threads": 1, "gpu": "none"}


def write(
    folder: Path,
    cell: str,
    runs: list[float],
    seeds: list[int] | None = None,
    hardware: dict[str, Any] = GPU,
) -> None:
    dataset, task, method = cell.split("-", 2)
    file = RecordFile(folder / f"table-{task}" / f"table-{task}.jsonl")
    for number, (seed, figure) in enumerate(zip(seeds or range(len(runs)), runs, strict=True)):
        found = {"figure": figure, "seconds": 2.0 + number}
        file.append(f"{dataset}-{method}-{seed}", {"found": found, "hardware": hardware})


class Tables(NamedTuple):
    """The page's tables in their order, each as cells by the name of the row."""

    nodes: dict[str, list[str]]
    nodes_differences: dict[str, list[str]]
    links: dict[str, list[str]]
    links_differences: dict[str, list[str]]
    nodes_seconds: dict[str, list[str]]
    links_seconds: dict[str, list[str]]


def drawn(folder: Path) -> Tables:
    main(["--runs", str(folder), "--folder", str(folder)])
    parts = (folder / "tables.md").read_text().split("\n\n")
    rows = [part.splitlines() for part in parts if part.startswith("|")]
    cells = [[[c.strip() for c in row.split("|")[1:-1]] for row in table] for table in rows]
    return Tables(*({name: rest for name, *rest in table} for table in cells))


def of_task(folder: Path, task: str) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Figures and differences."""
    tables = drawn(folder)._asdict()
    return tables[task], tables[f"{task}_differences"]


@pytest.mark.parametrize("task", TASKS)
def test_an_empty_folder_has_published_figures_and_dashes(tmp_path: Path, task: str) -> None:
    figures, differences = of_task(tmp_path, task)
    names = [name for name in figures if name != "---"]
    assert names[:9] == [
        "",
        "the paper's XTCL(GCN)",
        "xtcl-gcn",
        "the paper's XTCL(GAT)",
        "xtcl-gat",
        "gcn",
        "gat",
        "propagation",
        "logistic",
    ]
    assert figures[""] == list(TABLE_DATASETS)
    for name, expected in (
        ("the paper's XTCL(GCN)", PAPER[task]["xtcl-gcn"]),
        ("the paper's XTCL(GAT)", PAPER[task]["xtcl-gat"]),
        ("best other method in the paper's table", BEST_OTHER[task]),
        (names[10], BEST_PUBLISHED[task]),
    ):
        assert figures[name] == [f"{expected[dataset]:.2f}" for dataset in TABLE_DATASETS]
    for name in [*names[2:9:2], "gcn", "propagation", names[11]]:
        assert figures[name] == [DASH] * 5
    assert differences["xtcl-gcn minus propagation"] == [DASH] * 6


def test_means_errors_and_marks(tmp_path: Path) -> None:
    write(tmp_path, "cora-nodes-xtcl-gcn", [*[85.0, 87.0] * 5, 0.0])  # one more than is asked for
    write(tmp_path, "pubmed-nodes-xtcl-gcn", [86.0] * 5)
    write(tmp_path, "photo-nodes-xtcl-gcn", [93.836] * 5)  # 93.84 as printed
    write(tmp_path, "citeseer-nodes-xtcl-gcn", [74.0, 75.0])
    write(tmp_path, "computers-nodes-xtcl-gcn", [80.0])
    write(tmp_path, "cora-nodes-gcn", [10.0] * 10)
    figures = drawn(tmp_path).nodes
    assert figures["xtcl-gcn"] == [
        "86.00 ± 0.33",
        "74.50 ± 0.50 (2 splits)",
        "86.00 ± 0.00 ▼",
        "80.00 (1 split) ▼",
        "93.84 ± 0.00",
    ]
    assert figures["gcn"] == ["10.00 ± 0.00", *[DASH] * 4]


def test_differences_are_paired_by_split(tmp_path: Path) -> None:
    write(tmp_path, "cora-links-xtcl-gcn", [90.0, 95.0, 91.0], [0, 1, 2])
    write(tmp_path, "cora-links-gcn", [94.0, 90.5], [1, 2])
    write(tmp_path, "photo-links-xtcl-gcn", [90.0])
    write(tmp_path, "photo-links-gcn", [91.0])
    write(tmp_path, "pubmed-links-xtcl-gcn", [90.0], [0])
    write(tmp_path, "pubmed-links-gcn", [91.0], [1])
    differences = drawn(tmp_path).links_differences
    assert differences["xtcl-gcn minus gcn"] == ["+0.75 ± 0.25", DASH, DASH, DASH, "-1.00", DASH]


def test_the_mean_difference_is_that_of_all_data_sets(tmp_path: Path) -> None:
    for place, (dataset, splits) in enumerate(SPLITS.items()):
        write(tmp_path, f"{dataset}-nodes-xtcl-gat", [80.0 + place] * splits)
        write(tmp_path, f"{dataset}-nodes-gat", [80.0] * splits)
    differences = drawn(tmp_path).nodes_differences
    assert differences["xtcl-gat minus gat"][-1] == "+2.00"


def test_seconds_name_their_machine(tmp_path: Path) -> None:
    write(tmp_path, "cora-nodes-gcn", [80.0, 81.0])
    write(tmp_path, "cora-links-gcn", [80.0], hardware=LAPTOP)
    tables = drawn(tmp_path)
    assert tables.nodes_seconds["gcn"] == ["2.5 [1]", *[DASH] * 4]
    assert tables.links_seconds["gcn"] == ["2.0 [2]", *[DASH] * 4]
    text = (tmp_path / "tables.md").read_text()
    assert "- [1] Big GPU; Acme 9, 16 CPUs, 8 thread(s)\n" in text
    assert "- [2] no GPU; Acme 1, 2 CPUs, 1 thread(s)\n" in text


def test_purity_stands_beside_accuracy(tmp_path: Path) -> None:
    cell = {"mean": 61.25, "runs": [61.25], "seeds": [0], "mostly_right": [70.0, 72.0]}
    RecordFile(tmp_path / "purity.jsonl").append("citeseer-nodes", cell)
    mostly = drawn(tmp_path).nodes["test nodes most of whose positives share their class"]
    assert mostly == [DASH, "71.0", DASH, DASH, DASH]
    for figures, expected in (
        (drawn(tmp_path).nodes, [DASH, "61.2", DASH, DASH, DASH]),
        (drawn(tmp_path).links, [DASH] * 5),
    ):
        assert [row for name, row in figures.items() if name.startswith("purity")] == [expected]


def test_a_record_of_no_known_cell_is_left_alone(tmp_path: Path) -> None:
    write(tmp_path, "cora-nodes-other", [80.0])
    file = RecordFile(tmp_path / "table-nodes" / "table-nodes.jsonl")
    file.append("cora-xtcl-gcn-notes", [])
    assert set(drawn(tmp_path).nodes["xtcl-gcn"]) == {DASH}
