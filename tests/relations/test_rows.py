"""Levels kept for several views are those that each view would compute."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from strategies import make_view

from xtcl.config import SamplerConfig
from xtcl.relations.registry import PAPER_RELATIONS, resolve_relations
from xtcl.relations.rows import DenseRows
from xtcl.relations.view import LABELS
from xtcl.sampling import xgsampler
from xtcl.sampling.xgsampler import XGSampler
from xtcl.tasks import make_task


def test_views_that_differ_in_labels_share_what_is_kept() -> None:
    view = make_view(50, 2)
    relations = resolve_relations("paper")
    nodes = torch.tensor([40, 3, 17, 8])
    kept = DenseRows(relations, view, (0.7,)).cached_levels(nodes)
    assert set(kept) == {
        relation.name for relation in PAPER_RELATIONS if LABELS not in relation.reads
    }
    fold = view.without_labels(np.arange(0, 50, 2))
    asked = nodes[[2, 0]]
    with_kept = DenseRows(relations, fold, (0.7,), cached=kept)
    without = DenseRows(relations, fold, (0.7,))
    for found, expected in zip(with_kept.levels(asked), without.levels(asked), strict=True):
        assert torch.equal(found, expected)
    for both, expected_both in zip(with_kept(asked), without(asked), strict=True):
        assert torch.equal(both[0], expected_both[0])
        assert torch.equal(both[1], expected_both[1])


def test_what_is_kept_is_not_computed_again() -> None:
    view = make_view(50, 2)
    kept = DenseRows(resolve_relations("link"), view, (0.7,)).cached_levels(torch.arange(10))
    (rows,) = DenseRows(resolve_relations("link"), view, (0.7,), cached=kept).by_relation
    assert [rows] == list(kept.values())


@pytest.mark.parametrize("task", ["nodes", "links"])
@pytest.mark.parametrize("height", [None, 3])
def test_a_sampler_counts_the_same_with_levels_that_its_folds_share(
    task: str, height: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = make_view(50, 2)
    folds = make_task(task).folds(view, 3, np.random.default_rng(0))
    settings = SamplerConfig(quantiles=(0.7,))
    plain = XGSampler("paper", settings, block_rows=height).fit_folds(view, folds)
    kept: list[int] = []
    keep = XGSampler._cached_levels

    def watched(sampler: XGSampler, *asked: Any) -> Any:
        found = keep(sampler, *asked)
        kept.append(len(found))
        return found

    monkeypatch.setattr(XGSampler, "_cached_levels", watched)
    monkeypatch.setattr(xgsampler, "tiles_are_tall", lambda device: True)
    sharing = XGSampler("paper", settings, block_rows=height).fit_folds(view, folds)
    # Folds of links differ in links, and three rows are too few for all queries.
    assert kept == [7 if task == "nodes" and height is None else 0]
    assert np.array_equal(sharing.counts_.codes, plain.counts_.codes)
    assert np.array_equal(sharing.counts_.counts, plain.counts_.counts)
