"""Fast paths of top-k mode that a user's relation brings along, and which of them are inherited."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
import torch
from dense import all_rows
from hypothesis import given
from hypothesis import strategies as st
from small_stores import open_or_compute
from strategies import make_view, views
from topk_search_oracle import as_lists, expected, nearest
from torch import Tensor

from xtcl.config import SamplerConfig
from xtcl.errors import UsageError
from xtcl.relations.attribute_distribution import AttributeDistribution
from xtcl.relations.attribute_similarity import AttributeSimilarity
from xtcl.relations.graph_distance import GraphDistance
from xtcl.relations.jaccard import Jaccard
from xtcl.relations.link import Link
from xtcl.relations.registry import PAPER_RELATIONS
from xtcl.relations.relation import PairFunction, Relation, Rows
from xtcl.relations.row_source import LevelSource
from xtcl.relations.sparse import SparseRows
from xtcl.relations.store.relation_store import RelationStore
from xtcl.relations.topk import TopK, TopKSearch, index_settings, topk_from_dense
from xtcl.relations.topk_rows import topk_pair_similarities
from xtcl.relations.view import LINKS, TrainingView
from xtcl.sampling.folds import label_folds
from xtcl.sampling.xgsampler import XGSampler


@dataclass(frozen=True)
class Remainder(Relation):
    """Nodes with the same remainder are alike, the more so the closer their numbers are."""

    divisor: int = 4

    name: ClassVar[str] = "remainder"
    title: ClassVar[str] = "Remainder"
    reads: ClassVar[frozenset[str]] = frozenset({LINKS})

    def similarity(self, u: Tensor, v: Tensor) -> Tensor:
        same = u % self.divisor == v % self.divisor
        return torch.where(same, 1 / (1 + (u - v).abs().float()), 0.0)

    def prepare(self, view: TrainingView) -> Rows:
        def rows(nodes: Tensor) -> Tensor:
            return self.similarity(nodes[:, None], torch.arange(view.num_nodes))

        return rows

    def topk(self, view: TrainingView, top: TopK) -> TopKSearch:
        def search(nodes: Tensor) -> SparseRows:
            """The nodes with the same remainder, in no order."""
            members = [
                torch.arange(int(u) % self.divisor, view.num_nodes, self.divisor).flip(0)
                for u in nodes
            ]
            length = torch.tensor([len(each) for each in members], dtype=torch.int64)
            row = torch.repeat_interleave(torch.arange(len(nodes)), length)
            node = torch.cat([*members, nodes[:0]])
            return SparseRows(row, node, len(nodes), self.similarity(nodes[row], node))

        return search

    def of_pairs(self, view: TrainingView) -> PairFunction:
        return self.similarity


@dataclass(frozen=True)
class Reversed(Remainder):
    """Other rows, so none of the parent's fast paths."""

    def prepare(self, view: TrainingView) -> Rows:
        rows = super().prepare(view)
        return lambda nodes: rows(nodes).flip(1)


@given(views(), st.sampled_from([0.0, 0.5, 0.99]), st.sampled_from([1, 3, 18]))
def test_a_users_search_gives_the_best_of_the_dense_rows(
    view: TrainingView, quantile: float, k: int
) -> None:
    for relation in (Remainder(), Remainder(divisor=1), Reversed()):
        found = nearest(relation, view, quantile, k)(torch.arange(view.num_nodes))
        assert as_lists(found) == expected(relation, view, quantile, k)


@given(views())
def test_a_users_pairs_are_those_of_the_dense_rows(view: TrainingView) -> None:
    nodes = torch.arange(view.num_nodes).flip(0)
    row, partner = torch.nonzero(~torch.eye(view.num_nodes, dtype=torch.bool), as_tuple=True)
    for relation in (Remainder(), Reversed()):
        found = topk_pair_similarities(relation, view, cap=1)(nodes, row, partner)
        dense = torch.from_numpy(all_rows(relation, view))
        assert torch.equal(found, dense[nodes[row], partner])


class NoRowsError(Exception):
    """Whole rows were computed."""


def without_rows(monkeypatch: pytest.MonkeyPatch, kind: type[Relation]) -> None:
    def refuse(self: Relation, view: TrainingView) -> Rows:
        raise NoRowsError

    monkeypatch.setattr(kind, "prepare", refuse)


def test_a_sampler_in_topk_mode_computes_no_row_of_such_a_relation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    view = make_view(60, 0, known=0.8)
    folds = label_folds(view, None, 3, np.random.default_rng(0))
    settings = SamplerConfig(quantiles=(0.7,), cap=5)
    relations: list[str | Relation] = ["link", Remainder()]
    counts = []
    for _ in range(2):
        sampler = XGSampler(relations, settings).fit_folds(view, folds)
        sampler.similarities(np.array([[0, 1], [2, 5]]))
        counts.append(sampler.counts_.counts.tolist())
        without_rows(monkeypatch, Remainder)
        without_rows(monkeypatch, Link)
    assert counts[0] == counts[1]


@dataclass(frozen=True)
class Renamed(Link):
    """The rows of its parent."""

    name: ClassVar[str] = "renamed"


@dataclass(frozen=True)
class OwnFactors(AttributeSimilarity):
    """Rows and search follow from the factors."""

    def factors(self, view: TrainingView, top: TopK | None = None) -> Tensor:
        return view.dense_attributes().flip(0)


@dataclass(frozen=True)
class OwnPairs(Jaccard):
    """Rows and pairs of its own, and no search that fits them."""

    def prepare(self, view: TrainingView) -> Rows:
        rows = super().prepare(view)
        return lambda nodes: rows(nodes) / 2

    def of_pairs(self, view: TrainingView) -> PairFunction:
        pairs = super().of_pairs(view)
        return lambda u, v: pairs(u, v) / 2


class HalfOfAll:
    """Other rows for whatever relation it is mixed into."""

    def prepare(self, view: TrainingView) -> Rows:
        rows: Rows = super().prepare(view)  # type: ignore[misc]
        return lambda nodes: rows(nodes) / 2


@dataclass(frozen=True)
class Mixed(HalfOfAll, GraphDistance):
    """`prepare` comes from the mixin, the search from the relation: they do not belong together."""


def test_what_belongs_to_other_rows_is_not_inherited() -> None:
    view = make_view(40, 0)
    top = TopK.of(0.9, 3, 40)
    assert Renamed().topk(view, top) is not None
    assert Renamed().of_pairs(view) is not None
    assert (Renamed.row_by_row, Renamed.in_range) == (True, True)
    assert Reversed().topk(view, top) is None
    assert Reversed().of_pairs(view) is None
    assert OwnPairs().topk(view, top) is None
    assert OwnPairs().of_pairs(view) is not None
    assert (OwnPairs.row_by_row, OwnPairs.in_range) == (False, False)
    assert Mixed().topk(view, top) is None
    assert Mixed().in_topk_mode() == Mixed()
    assert (Mixed.row_by_row, Mixed.by_threads, Mixed.in_range) == (False, False, False)
    assert GraphDistance.by_threads


@pytest.mark.parametrize("relation", [Renamed(), OwnFactors(), OwnPairs(), Mixed()], ids=repr)
@given(view=views(attributes=["counts", "zeros"]), k=st.sampled_from([1, 3, 18]))
def test_derived_relations_list_the_best_of_their_own_rows(
    relation: Relation, view: TrainingView, k: int
) -> None:
    found = as_lists(nearest(relation, view, 0.5, k)(torch.arange(view.num_nodes)))
    top = TopK.of(0.5, k, view.num_nodes)
    exact = as_lists(topk_from_dense(relation.on(view), top)(torch.arange(view.num_nodes)))
    for one, other in zip(found, exact, strict=True):
        values = [sorted(value for _, value in pairs) for pairs in (one, other)]
        np.testing.assert_allclose(values[0], values[1], atol=1e-6)


@dataclass(frozen=True)
class Declared(Remainder):
    """Says that its fields decide its rows."""

    name: ClassVar[str] = "declared"
    cacheable: ClassVar[bool] = True


@dataclass(frozen=True)
class Derived(Declared):
    """Says nothing for itself."""


def test_only_a_class_that_says_so_itself_is_cacheable() -> None:
    assert all(kind.cacheable and kind.in_range for kind in PAPER_RELATIONS)
    assert Declared.cacheable
    for kind in (Remainder, Derived, Renamed, OwnFactors, OwnPairs, Mixed):
        assert not kind.cacheable
        assert not kind().shared_by_folds


def test_a_cacheable_relation_is_computed_once_for_a_view() -> None:
    view = make_view(30, 0)
    assert Declared().on(view).compute is Declared().on(view).compute
    assert Derived().on(view).compute is not Derived().on(view).compute
    assert nearest(Declared(), view, 0.9, 3) is nearest(Declared(), view, 0.9, 3)
    assert nearest(Derived(), view, 0.9, 3) is not nearest(Derived(), view, 0.9, 3)


def test_a_cacheable_relation_is_stored(tmp_path: object) -> None:
    store, view = RelationStore(tmp_path), make_view(30, 0)  # type: ignore[arg-type]
    open_or_compute(store, view, Declared(), (0.9,)).close()
    assert [entry.relation for entry in store.listing()] == ["declared"]
    with pytest.raises(UsageError, match="does not declare itself cacheable"):
        open_or_compute(store, view, Derived(), (0.9,))
    assert LevelSource(Derived(), view, (0.9,)).similarities.check_values


@dataclass(frozen=True)
class Wrong(Remainder):
    """Fast paths that give what similarities cannot be."""

    value: float = 2.0

    def topk(self, view: TrainingView, top: TopK) -> TopKSearch:
        def search(nodes: Tensor) -> SparseRows:
            every = torch.arange(len(nodes))
            return SparseRows(every, nodes * 0 + 7, len(nodes), torch.full((len(nodes),), 2.0))

        return search

    def of_pairs(self, view: TrainingView) -> PairFunction:
        return lambda u, v: torch.full((len(u),), self.value)


def test_values_of_fast_paths_are_checked() -> None:
    view, nodes = make_view(30, 0), torch.tensor([3, 4])
    with pytest.raises(UsageError, match=r"'remainder'.* nodes 3 and 7 have 2: scale it"):
        nearest(Wrong(), view, 0.9, 3)(nodes)
    pairs = topk_pair_similarities(Wrong(value=-1.0), view, cap=3)
    with pytest.raises(UsageError, match=r"'remainder'.* nodes 4 and 9 have -1: scale it"):
        pairs(nodes, torch.tensor([1]), torch.tensor([9]))


@dataclass(frozen=True)
class NoLists(Remainder):
    """A search that returns something else."""

    def topk(self, view: TrainingView, top: TopK) -> TopKSearch:
        return lambda nodes: torch.zeros(3)  # type: ignore[return-value]


def test_a_search_must_return_sparse_rows() -> None:
    search = nearest(NoLists(), make_view(30, 0), 0.9, 3)
    with pytest.raises(UsageError, match="'remainder' must return SparseRows with a value"):
        search(torch.arange(5))


def test_an_index_is_named_for_relations_with_factors_only() -> None:
    view = make_view(40, 0)
    relations: tuple[Relation, ...] = AttributeDistribution(), OwnFactors(), Link(), Remainder()
    named = [index_settings(relation, view, 10, few_queries=False) for relation in relations]
    assert ["index_past" in settings for settings in named] == [True, True, False, False]
