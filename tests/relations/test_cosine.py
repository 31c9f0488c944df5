"""Cosines of linked pairs only: rows, lists and pairs against the formula."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from dense import all_rows, cosines, dense_adjacency, dense_attributes
from hypothesis import given
from hypothesis import strategies as st
from strategies import make_view, views
from topk_search_oracle import as_lists, nearest

from xtcl.relations.attribute_distribution import AttributeDistribution
from xtcl.relations.attribute_label_distribution import AttributeLabelDistribution
from xtcl.relations.attribute_similarity import AttributeSimilarity
from xtcl.relations.cosine import CosineRelation
from xtcl.relations.label_distribution import LabelDistribution
from xtcl.relations.link import Link
from xtcl.relations.thresholds import levels
from xtcl.relations.topk import index_settings
from xtcl.relations.topk_rows import topk_pair_similarities
from xtcl.relations.view import LINKS, TrainingView

KINDS: list[type[CosineRelation]] = [
    AttributeSimilarity,
    AttributeDistribution,
    LabelDistribution,
    AttributeLabelDistribution,
]


def printed(kind: type[CosineRelation], view: TrainingView) -> np.ndarray:
    """The cosines of all pairs."""
    A, X = dense_adjacency(view), dense_attributes(view)
    Y = view.one_hot_labels().astype(np.float64)
    if kind is AttributeSimilarity:
        return cosines(X)
    if kind is AttributeDistribution:
        return cosines(A @ X)
    if kind is LabelDistribution:
        return cosines(A @ A @ Y)
    return cosines((A * cosines(A @ X)) @ Y)


@pytest.mark.parametrize("kind", KINDS)
@given(view=views())
def test_rows_are_the_cosines_of_linked_pairs(
    kind: type[CosineRelation], view: TrainingView
) -> None:
    rows = all_rows(kind(linked_only=True), view)
    np.testing.assert_allclose(rows, dense_adjacency(view) * printed(kind, view), atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
@given(view=views(), quantile=st.sampled_from([0.0, 0.5, 0.99]), k=st.sampled_from([1, 3, 18]))
def test_lists_and_pairs_are_those_of_the_rows(
    kind: type[CosineRelation], view: TrainingView, quantile: float, k: int
) -> None:
    nodes = torch.arange(view.num_nodes)
    found = nearest(kind(linked_only=True), view, quantile, k)(nodes)
    rows = torch.from_numpy(all_rows(kind(linked_only=True), view))
    row, partner = torch.nonzero(torch.ones_like(rows), as_tuple=True)
    pairs = topk_pair_similarities(kind(linked_only=True), view, cap=k)(nodes, row, partner)
    assert torch.equal(pairs, rows.flatten())
    above = levels(rows.clone(), nodes, [quantile]) > 0
    for u, listed in enumerate(as_lists(found)):
        best = sorted((-float(rows[u, v]), v) for v in range(len(rows)) if above[u, v])[:k]
        assert listed == sorted((v, -value) for value, v in best)


@pytest.mark.parametrize("kind", KINDS)
def test_all_pairs_is_the_default_and_only_links_are_looked_at(
    kind: type[CosineRelation], monkeypatch: pytest.MonkeyPatch
) -> None:
    view = make_view(200, 1, known=0.5)
    assert kind() == kind(linked_only=False) != kind(linked_only=True)
    assert kind().of_pairs(view) is None
    assert kind(linked_only=True).reads == kind.reads | {LINKS}
    assert kind().reads == kind.reads
    assert kind(linked_only=True).factors(view) is None
    matrix = kind(linked_only=True).linked_similarities(view)
    assert matrix.nnz == view.adjacency.nnz
    assert index_settings(kind(linked_only=True), view, 10, few_queries=False) == {}
    seen = []
    monkeypatch.setattr(torch.Tensor, "__matmul__", lambda a, b: seen.append((a, b)))
    nearest(kind(linked_only=True), view, 0.99, 3)(torch.arange(200))
    assert not seen


def test_hidden_links_are_hidden_from_attributes_too() -> None:
    """Attribute similarity of linked pairs reads links, so folds of links do not share it."""
    view = make_view(30, 0)
    relation = AttributeSimilarity(linked_only=True)
    whole = relation.linked_similarities(view)
    upper = view.adjacency.tocoo()
    some = np.stack(upper.coords)[:, upper.coords[0] < upper.coords[1]][:, ::2].astype(np.int64)
    less = view.without_links(some)
    assert relation.linked_similarities(view) is whole
    assert relation.linked_similarities(less).nnz == whole.nnz - 2 * some.shape[1]
    assert Link().reads <= relation.reads
