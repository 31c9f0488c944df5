"""The O(E) mode of the paper's Section 3.3: a fit in which nobody computes whole rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from xtcl.estimator import XTCL
from xtcl.graph.datasets.synthetic import block_model
from xtcl.graph.splits import node_split
from xtcl.relations.relation import SimilarityRows
from xtcl.relations.rows import DenseRows
from xtcl.sampling import LearnedPositives

GRAPH = block_model(150, num_classes=3, num_attributes=16, seed=0)
SPLIT = node_split(GRAPH, train=0.3, seed=0)
LINKED: dict[str, Any] = {
    "relations": "linked",
    "cap": 8,
    "positives": LearnedPositives(hops=1),
    "recipe": "2026-11",
}


@pytest.fixture
def _no_whole_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of V similarities, of one relation or of all, are an error."""

    def refuse(*given: object, **options: object) -> None:
        raise AssertionError("whole rows are computed")

    monkeypatch.setattr(DenseRows, "__init__", refuse)
    monkeypatch.setattr(SimilarityRows, "__call__", refuse)
    monkeypatch.setattr(SimilarityRows, "tiles", refuse)


def fitted(**settings: Any) -> XTCL:
    model = XTCL(width=8, epochs=2, device="cpu", **{**LINKED, **settings})
    return model.fit(GRAPH, SPLIT)


@pytest.mark.usefixtures("_no_whole_rows")
def test_no_whole_row_is_computed() -> None:
    model = fitted()
    assert len(model.sampler_.relations_) == 8
    node, place = np.nonzero(model.positives_ >= 0)
    assert len(node) > GRAPH.num_nodes
    linked = GRAPH.adjacency.toarray()[node, model.positives_[node, place]]
    assert (linked == 1).all()
    assert model.score(SPLIT) > 1 / 3


@pytest.mark.usefixtures("_no_whole_rows")
@pytest.mark.parametrize("settings", [{"cap": None}, {"relations": "paper", "cap": None}])
def test_exact_mode_is_what_the_test_would_catch(settings: dict[str, Any]) -> None:
    with pytest.raises(AssertionError, match="whole rows are computed"):
        fitted(**settings)
