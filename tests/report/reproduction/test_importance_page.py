"""The page of the importances, from records made by hand."""

from __future__ import annotations

from pathlib import Path

from xtcl.lab.experiments import draw_experiment
from xtcl.lab.experiments.experiment import Record
from xtcl.lab.experiments.importance import Importance, relations_of
from xtcl.report.charts import DASH


def weight(importance: float) -> dict[str, object]:
    interval = [importance - 0.25, importance + 0.5]
    return {"w0": -0.1, "w1": importance, "importance": importance, "interval": interval}


def record(dataset: str, task: str, **importances: float) -> Record:
    found = {name.replace("_", "-"): weight(value) for name, value in importances.items()}
    return Record({"dataset": dataset, "task": task, "seed": 0}, found, 1.0, {}, {})


RECORDS = [
    record("cora", "nodes", link=2.0, jaccard=1.0, attribute_label_distribution=4.0),
    record("photo", "nodes", link=1.0, jaccard=3.5),
    record("cora", "links", jaccard=0.5),
]


def test_the_page_has_a_table_for_each_task(tmp_path: Path) -> None:
    page = draw_experiment(Importance(), RECORDS, tmp_path).read_text()
    nodes, links = page.split("## links")
    assert "| Link | 2.00 (1.75 to 2.50) | 1.00 (0.75 to 1.50) |" in nodes
    assert f"| Attr. Label Dist. | 4.00 (3.75 to 4.50) | {DASH} |" in nodes
    assert "| Jaccard Sim. | 0.50 (0.25 to 1.00) |" in links
    assert "Link |" not in links
    assert (tmp_path / "importance.png").exists()


def test_the_most_important_comes_first() -> None:
    assert relations_of(RECORDS[:2]) == ["attribute-label-distribution", "jaccard", "link"]
