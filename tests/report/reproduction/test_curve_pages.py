"""Pages of the experiments over a growing quantity, from records made by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from xtcl.lab.experiments import draw_experiment
from xtcl.lab.experiments.class_count import ClassCount
from xtcl.lab.experiments.drawing import mean_and_error
from xtcl.lab.experiments.experiment import Record
from xtcl.lab.experiments.learning_curve import LearningCurve
from xtcl.lab.experiments.perturbation import PerturbedLabels
from xtcl.lab.experiments.training_time import TrainingTime
from xtcl.report.charts import DASH


def record(found: dict[str, Any], **what: Any) -> Record:
    return Record(what, found, 1.0, {}, {})


def test_learning_curves(tmp_path: Path) -> None:
    records = [
        record({"figure": 80.0 + seed}, dataset="cora", percent=p, method="gcn", seed=seed)
        for p in (5, 10)
        for seed in (0, 1)
    ]
    records.append(record({"figure": 90.0}, dataset="cora", percent=5, method="sscl", seed=0))
    page = draw_experiment(LearningCurve(), records, tmp_path).read_text()
    assert f"| 5 | 80.50 ± 0.50 | 90.00 |\n| 10 | 80.50 ± 0.50 | {DASH} |" in page
    assert (tmp_path / "learning-curve.svg").exists()


def test_classes(tmp_path: Path) -> None:
    records = [
        record({"figure": 70.0 + c}, classes=c, method=method, seed=0)
        for c in (3, 7)
        for method in ("gcn", "xtcl-gcn")
    ]
    page = draw_experiment(ClassCount(), records, tmp_path).read_text()
    assert "| classes | GCN | XTCL (GCN) |" in page
    assert "| 7 | 77.00 | 77.00 |" in page
    assert "91.7 with 3" in page


def test_perturbation(tmp_path: Path) -> None:
    records = [
        record(
            {"figure": 70.0, "train": 95.0, "information": 1e-4 * (1 + graph)},
            rule=rule,
            number=500,
            method="gcn",
            graph=graph,
            seed=seed,
        )
        for rule in ("copy", "vote")
        for graph in (0, 1)
        for seed in range(3)
    ]
    page = draw_experiment(PerturbedLabels(), records, tmp_path).read_text()
    assert "| 500 | 1.50 |" in page  # each graph counts once
    assert "| 500 | 70.00 ± 0.00 |" in page
    assert "| 500 | 25.00 ± 0.00 |" in page
    assert page.index("the paper's rule") < page.index("our rule")


def test_time_and_its_growth(tmp_path: Path) -> None:
    records = [
        record({"seconds": factor * size**2}, size=size, system=system, repeat=0)
        for system, factor in (("xgsampler", 1e-7), ("naive-xgboost", 4e-7))
        for size in (1000, 2000, 4000)
    ]
    page = draw_experiment(TrainingTime(), records, tmp_path).read_text()
    assert "| XGSampler | 2.00 (2.00 to 2.00) |" in page
    assert "75 % less time" in page
    alone = draw_experiment(TrainingTime(), records[:2], tmp_path).read_text()
    assert f"| XGSampler | {DASH} |" in alone  # two points fit any line
    assert "less time, averaged" not in alone


def test_one_value_has_no_error() -> None:
    assert mean_and_error([2.0]) == (2.0, None)
    assert mean_and_error([1.0, 3.0]) == pytest.approx((2.0, 1.0))
