"""Levels kept for several views are those that each view would compute."""

from __future__ import annotations

import numpy as np
import torch
from strategies import make_view

from xtcl.relations.pattern_rows import PatternRows
from xtcl.relations.registry import PAPER_RELATIONS, resolve_relations
from xtcl.relations.view import LABELS


def test_views_that_differ_in_labels_share_what_is_kept() -> None:
    view = make_view(50, 2)
    relations = resolve_relations("paper")
    nodes = torch.tensor([40, 3, 17, 8])
    kept = PatternRows(relations, view, (0.7,)).kept(nodes)
    assert {relation.name for relation in kept} == {
        relation.name for relation in PAPER_RELATIONS if LABELS not in relation.reads
    }
    fold = view.hiding_labels(np.arange(0, 50, 2))
    asked = nodes[[2, 0]]
    with_kept = PatternRows(relations, fold, (0.7,), kept=kept)
    without = PatternRows(relations, fold, (0.7,))
    for found, expected in zip(with_kept.levels(asked), without.levels(asked), strict=True):
        assert torch.equal(found, expected)
    for both, expected_both in zip(with_kept(asked), without(asked), strict=True):
        assert torch.equal(both[0], expected_both[0])
        assert torch.equal(both[1], expected_both[1])


def test_what_is_kept_is_not_computed_again() -> None:
    view = make_view(50, 2)
    kept = PatternRows(resolve_relations("link"), view, (0.7,)).kept(torch.arange(10))
    (rows,) = PatternRows(resolve_relations("link"), view, (0.7,), kept=kept).by_relation
    assert [rows] == list(kept.values())
