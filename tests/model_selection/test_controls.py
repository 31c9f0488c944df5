"""The quick controls, and the sentence of advice: honest about what the test side can tell."""

from __future__ import annotations

import pytest

from xtcl.baselines import METHODS
from xtcl.model_selection.controls import QUICK_CONTROLS, advice


@pytest.mark.parametrize("task", ["nodes", "links"])
def test_quick_controls_know_the_task(task: str) -> None:
    found = QUICK_CONTROLS[task]
    assert {"logistic", "propagation", "gcn"} <= set(found)
    assert all(task in METHODS[name].tasks for name in found)
    assert ({"trees", "trees-neighbours"} <= set(found)) == (task == "nodes")


# One standard error of 90 % on 900 nodes is a point; that of 89 % is 1.04 points.


def test_ours_first_beyond_the_error() -> None:
    found = advice({"xtcl-gcn": 0.9, "gcn": 0.877, "logistic": 0.5}, "xtcl-gcn", "nodes", 900)
    assert found == (
        "xtcl-gcn is first, 2.3 points above gcn (one standard error of 900 test nodes: 1.1)."
    )


def test_a_control_first_beyond_the_error() -> None:
    scores = {"xtcl-gcn": 0.88, "propagation": 0.9, "gcn": 0.895}
    assert advice(scores, "xtcl-gcn", "nodes", 900) == (
        "propagation is 2.0 points above xtcl-gcn (one standard error of 900 test nodes: 1.1): "
        "links and attributes alone answer this task; use it, or give more labels."
    )
    links = advice({"xtcl-gcn": 0.5, "logistic": 0.9}, "xtcl-gcn", "links", 900)
    assert links.endswith("attributes alone answer this task; use it, or give more links.")
    other = advice({"xtcl-gcn": 0.5, "mine": 0.9}, "xtcl-gcn", "nodes", 900)
    assert ": it suits this task better; use it" in other


@pytest.mark.parametrize("ours", [0.89, 0.9, 0.905])
def test_within_one_standard_error_is_level(ours: float) -> None:
    scores = {"xtcl-gcn": ours, "gcn": 0.897, "propagation": 0.899, "logistic": 0.6}
    found = advice(scores, "xtcl-gcn", "nodes", 900)
    assert "xtcl-gcn" in found
    assert " are level: " in found
    assert "logistic" not in found
    assert "one standard error of 900 test nodes is 1.0" in found


def test_one_wrong_node_in_few_is_no_difference() -> None:
    # The error of 100 % is not 0.
    assert " are level: " in advice({"xtcl-gcn": 1.0, "gcn": 23 / 24}, "xtcl-gcn", "nodes", 24)
