"""Columns that give the label away are suspected, honest ones are not."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from xtcl.graph.graph import Graph
from xtcl.graph.tables.checks import leaky_columns
from xtcl.graph.tables.read import read_spec
from xtcl.graph.tables.spec import TableSpec


def graph_of(nodes: int, classes: int, seed: int, known: float = 1.0) -> Graph:
    rng = np.random.default_rng(seed)
    labels = rng.integers(classes, size=nodes)
    names = np.array([f"c{label}" for label in labels], object)
    names[rng.random(nodes) > known] = None
    columns = {
        "id": np.arange(nodes),
        "noise": rng.normal(size=nodes),
        "group": [f"g{at}" for at in rng.integers(8, size=nodes)],
        "hint": labels + rng.normal(0, 0.8, nodes),
        "code": [f"code {label}" for label in labels],
        "score": labels + rng.normal(0, 0.05, nodes),
        "topic": names.tolist(),
    }
    edges = pa.table({"u": [0], "v": [1]})
    return read_spec(TableSpec(nodes=pa.table(columns), edges=edges, label="topic")).graph


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    ("nodes", "classes", "known"), [(60, 2, 1.0), (2000, 6, 0.1), (9000, 3, 1)]
)
def test_only_the_answer_in_disguise(nodes: int, classes: int, known: float, seed: int) -> None:
    found = leaky_columns(graph_of(nodes, classes, seed, known))
    assert {suspect.column for suspect in found} == {"code", "score"}
    assert all(suspect.share >= 0.98 for suspect in found)


def test_too_few_labels_tell_nothing() -> None:
    assert leaky_columns(graph_of(15, 2, 0)) == []
    assert leaky_columns(graph_of(60, 30, 0)) == []
