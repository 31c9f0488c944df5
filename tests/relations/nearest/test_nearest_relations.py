"""What holds for every relation: the best of the exact row, the same however asked for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from nearest_oracle import as_lists, expected, nearest, whole_rows
from strategies import make_view, views

from xtcl.errors import UsageError
from xtcl.relations import topk as parts
from xtcl.relations.attribute_distribution import AttributeDistribution
from xtcl.relations.attribute_label_distribution import AttributeLabelDistribution
from xtcl.relations.attribute_similarity import AttributeSimilarity
from xtcl.relations.graph_distance import GraphDistance
from xtcl.relations.jaccard import Jaccard
from xtcl.relations.label_distribution import LabelDistribution
from xtcl.relations.link import Link
from xtcl.relations.pagerank import PageRank
from xtcl.relations.relation import Relation, Rows
from xtcl.relations.topology import Topology
from xtcl.relations.view import TrainingView


@dataclass(frozen=True)
class Backwards(Link):
    """Derived from one of ours, with other rows."""

    def prepare(self, view: TrainingView) -> Rows:
        rows = super().prepare(view)
        return lambda nodes: rows(nodes).flip(1)


COUNTED: tuple[Relation, ...] = (
    *(Link(), Jaccard(), Jaccard(hops=2), Topology(), GraphDistance(), Backwards()),
)
COSINES: tuple[Relation, ...] = (
    *(AttributeSimilarity(), AttributeDistribution(), AttributeDistribution(hops=2)),
    *(LabelDistribution(), LabelDistribution(hops=1)),
    *(AttributeLabelDistribution(), AttributeLabelDistribution(quantile=0.5)),
)
exact_relation = pytest.mark.parametrize("relation", [*COUNTED, *COSINES], ids=repr)
every_relation = pytest.mark.parametrize("relation", [*COUNTED, *COSINES, PageRank()], ids=repr)
caps = st.sampled_from([1, 3, 18])
quantiles = st.sampled_from([0.0, 0.5, 0.8, 0.99])


@pytest.mark.parametrize("relation", COUNTED, ids=repr)
@given(view=views(), quantile=quantiles, cap=caps)
def test_are_the_best_of_the_exact_row(
    relation: Relation, view: TrainingView, quantile: float, cap: int
) -> None:
    found = nearest(relation, view, quantile, cap)(torch.arange(view.num_nodes))
    assert as_lists(found) == expected(relation, view, quantile, cap)


@pytest.mark.parametrize("relation", COSINES, ids=repr)
@given(view=views(), quantile=quantiles, cap=caps)
def test_cosines_are_the_best_but_for_rounding(
    relation: Relation, view: TrainingView, quantile: float, cap: int
) -> None:
    """A product of few columns, as rows of few nodes are, rounds otherwise than a wide one."""
    found = as_lists(nearest(relation, view, quantile, cap)(torch.arange(view.num_nodes)))
    rows = whole_rows(relation, view, cap)
    for u, exact in enumerate(expected(relation, view, quantile, cap)):
        nodes = [node for node, _ in found[u]]
        values = [value for _, value in found[u]]
        assert nodes == sorted(set(nodes) - {u})
        np.testing.assert_allclose(values, rows[u, nodes], atol=1e-6)
        np.testing.assert_allclose(sorted(values), sorted(s for _, s in exact), atol=1e-6)


@every_relation
@given(view=views(), quantile=st.sampled_from([0.5, 0.99]))
def test_with_room_for_all_are_the_above_sets(
    relation: Relation, view: TrainingView, quantile: float
) -> None:
    cap = view.num_nodes - 1
    found = nearest(relation, view, quantile, cap)(torch.arange(view.num_nodes))
    assert as_lists(found) == expected(relation, view, quantile, view.num_nodes)


@exact_relation
@pytest.mark.parametrize("shape", ["random", "star", "cliques", "isolated"])
@pytest.mark.parametrize("cap", [3, 20])
def test_several_hundred_nodes(relation: Relation, shape: str, cap: int) -> None:
    view = make_view(300, 1, shape, "counts")
    found = nearest(relation, view, 0.9, cap)(torch.arange(300))
    assert as_lists(found) == expected(relation, view, 0.9, cap)


@every_relation
@pytest.mark.parametrize("attributes", ["counts", "signed"])
def test_are_the_same_however_asked(
    relation: Relation, attributes: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = make_view(300, 5, "random", attributes)
    find = nearest(relation, view, 0.9, 7)
    everything = as_lists(find(torch.arange(300)))
    order = torch.from_numpy(np.random.default_rng(0).permutation(300))
    assert as_lists(find(order)) == [everything[node] for node in order]
    monkeypatch.setattr(parts, "MAX_ITEMS", 100)
    for block in torch.split(order, 41):
        assert as_lists(find(block)) == [everything[node] for node in block]
    assert as_lists(find(torch.tensor([3, 3]))) == [everything[3]] * 2


@every_relation
@pytest.mark.parametrize("threads", [1, 4])
def test_threads_share_the_work_and_change_nothing(
    relation: Relation, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = make_view(300, 5, "random", "counts")
    everything = as_lists(nearest(relation, view, 0.9, 7)(torch.arange(300)))
    monkeypatch.setattr(parts, "MAX_ITEMS", 1000)
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    assert as_lists(nearest(relation, view, 0.9, 7)(torch.arange(300))) == everything


@pytest.mark.parametrize(("quantile", "cap"), [(0.99, 0), (1.0, 3), (-0.1, 3)])
def test_refuses_a_senseless_cut(quantile: float, cap: int) -> None:
    with pytest.raises(UsageError):
        nearest(Link(), make_view(9, 0), quantile, cap)
