"""Similarities of single pairs, against the exact rows they lie in."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from small_runs import small_graph
from strategies import views

from xtcl.relations import common_neighbours
from xtcl.relations.jaccard import Jaccard
from xtcl.relations.link import Link
from xtcl.relations.relation import Relation
from xtcl.relations.topk_rows import topk_pair_similarities
from xtcl.relations.topology import Topology
from xtcl.relations.view import TrainingView


@pytest.mark.parametrize("relation", [Link(), Jaccard(), Jaccard(hops=2), Topology()], ids=repr)
@given(views(), st.integers(1, 40))
def test_are_those_of_the_exact_row(relation: Relation, view: TrainingView, at_once: int) -> None:
    row, partner = torch.nonzero(~torch.eye(view.num_nodes, dtype=torch.bool), as_tuple=True)
    nodes = torch.arange(view.num_nodes).flip(0)
    row = nodes[row]  # any order
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(common_neighbours, "MAX_LOOKUPS", at_once)
        found = topk_pair_similarities(relation, view, cap=1)(nodes, row, partner)
    different = nodes[row] != partner
    expected = relation.on(view)(nodes)[row, partner]
    assert torch.equal(found[different], expected[different])


def test_no_pairs_have_no_similarities() -> None:
    view = TrainingView.of(small_graph(20))
    nothing = torch.zeros(0, dtype=torch.int64)
    for relation in (Link(), Jaccard(), Topology()):
        assert topk_pair_similarities(relation, view, cap=1)(nothing, nothing, nothing).shape == (
            0,
        )
