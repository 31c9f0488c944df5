"""A model that an earlier version saved still loads, and answers as it did."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from golden_runs import answers

from xtcl.estimator import XTCL

GOLDEN = Path(__file__).parents[1] / "golden"
RUNS = sorted(path.parent for path in GOLDEN.glob("*/*/answers.json"))


@pytest.mark.parametrize("run", RUNS, ids=lambda run: str(run.relative_to(GOLDEN)))
def test_a_golden_run_loads_and_answers_as_it_did(run: Path) -> None:
    current = answers(XTCL.load(run))
    expected = json.loads((run / "answers.json").read_text())
    assert current.keys() == expected.keys()
    for name, values in expected.items():
        assert current[name] == pytest.approx(values, abs=2e-4), name


def test_there_is_a_golden_run_of_each_task() -> None:
    assert {run.name for run in RUNS} == {"nodes", "links"}
