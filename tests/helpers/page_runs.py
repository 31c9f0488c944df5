"""A small graph with ids that would harm a careless page, and fits of it."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
from small_runs import small_graph, small_model

from xtcl.estimator import XTCL
from xtcl.graph.graph import Graph
from xtcl.graph.splits import LinkSplit, NodeSplit, link_split, node_split

HOSTILE = (
    "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(2)>",
    "=cmd()",
    "long " * 2000,
    "שלום עולם",
    "👩‍🔬 emoji",
    "\"double\" 'single' & `back`",
    "turned \u202e around",
    "two\u2028lines\u2029 and \x07 a bell",
    "{{ 7 * 7 }} ${7*7}",
    "half \ud83d a pair",
)
CLASSES = ("<b>cat</b>", "dog & co", "</script>")


@functools.cache
def hostile_graph() -> Graph:
    """Eighty nodes: two without links, some labels unknown, an attribute row that is blank."""
    plain = small_graph()
    assert plain.labels is not None
    edges = plain.edges[:, (plain.edges < 78).all(axis=0)]
    labels = plain.labels.copy()
    labels[40:50] = -1
    attributes = np.array(plain.attributes)
    attributes[5] = 0
    ids = [*HOSTILE, *(f"n{number}" for number in range(len(HOSTILE), 80))]
    return Graph.from_arrays(
        attributes, edges, labels, node_ids=ids, classes=CLASSES, name="<i>odd</i> & co"
    )


@functools.cache
def hostile_fit(task: str, **settings: Any) -> XTCL:
    """A fit of it; not to be changed."""
    graph = hostile_graph()
    split: NodeSplit | LinkSplit = node_split(graph, 0.4, seed=0)
    if task == "links":
        split = link_split(graph, seed=0)
    return small_model(task, epochs=3, **settings).fit(graph, split)


@pytest.fixture
def few_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Intervals from a few resamples: quick, and of the same form."""
    monkeypatch.setattr("xtcl.sampling.weights.RESAMPLES", 5)
