"""Figures of docs/top-k.md are those of the files that it names."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "top-k.md").read_text(encoding="utf-8")
FOLDER = ROOT / "results" / "performance" / "linked-growth"
FOUR = (
    "attribute-similarity",
    "attribute-distribution",
    "label-distribution",
    "attribute-label-distribution",
)


def growth() -> list[dict[str, float]]:
    rows: list[dict[str, float]] = json.loads((FOLDER / "linked_growth.json").read_text("utf-8"))
    return rows


def exponent(rows: list[dict[str, float]], part: str = "seconds") -> float:
    """The slope of a line through the logarithms."""
    links, seconds = ([row[name] for row in rows] for name in ("links", part))
    return float(np.polyfit(np.log(links), np.log(seconds), 1)[0])


def shown(row: dict[str, float]) -> str:
    """A row of the page's table."""
    parts = (
        row["seconds"],
        sum(row[name] for name in FOUR),
        row["graph-distance"],
        sum(row[name] for name in ("link", "jaccard", "topology")),
        row["sampler"] + row["positives"],
    )
    cells = [f"{row['links']:,}", f"{row['nodes']:,}", *(f"{part:.1f}" for part in parts)]
    return f"| {' | '.join([*cells, format(round(row['peak_mb']), ',')])} |"


def test_the_table_of_linked_growth() -> None:
    assert "results/performance/linked-growth/linked_growth.md" in PAGE
    assert [row["links"] for row in growth()] == [10_000, 30_000, 100_000, 300_000, 1_000_000]
    for row in growth():
        assert shown(row) in PAGE


def test_the_exponents_of_linked_growth() -> None:
    rows = growth()
    told = re.search(
        r"Seconds grow with E\^([\d.]+), and with E\^([\d.]+) from 300,000 to a million links; "
        r"over all five sizes no relation grows faster than E\^([\d.]+)\.",
        PAGE,
    )
    assert told is not None
    names = (*FOUR, "graph-distance", "link", "jaccard", "topology")
    found = exponent(rows), exponent(rows[-2:]), max(exponent(rows, name) for name in names)
    assert told.groups() == tuple(f"{each:.2f}" for each in found)
    assert found[0] < 1.1  # the bar: linear in the number of links


def test_the_written_table_is_that_of_the_record() -> None:
    written = (FOLDER / "linked_growth.md").read_text("utf-8").splitlines()
    for row, line in zip(growth(), written[2:], strict=False):
        cells = line.strip("| ").split(" | ")
        assert cells[:2] == [f"{row['links']:,}", f"{row['nodes']:,}"]
        assert float(cells[2]) == float(f"{row['seconds']:.3g}")
