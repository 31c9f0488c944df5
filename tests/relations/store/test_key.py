"""Different content never shares a name, and equal content always does."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from small_stores import open_or_compute
from strategies import make_view
from user_code import RELATION, user_module

from xtcl.errors import UsageError
from xtcl.relations.attribute_distribution import AttributeDistribution
from xtcl.relations.attribute_label_distribution import AttributeLabelDistribution
from xtcl.relations.attribute_similarity import AttributeSimilarity
from xtcl.relations.label_distribution import LabelDistribution
from xtcl.relations.link import Link
from xtcl.relations.pagerank import PageRank
from xtcl.relations.relation import Relation, Rows
from xtcl.relations.row_source import TopKSource
from xtcl.relations.store import key
from xtcl.relations.store.key import describe, name_of
from xtcl.relations.store.relation_store import RelationStore
from xtcl.relations.view import ATTRIBUTES, LABELS, LINKS, TrainingView

VIEW = make_view(30, 0)


def name(
    view: TrainingView = VIEW,
    relation: Relation | None = None,
    quantiles: tuple[float, ...] = (0.9,),
    nodes: np.ndarray | None = None,
) -> str:
    return name_of(describe(view, relation or AttributeLabelDistribution(), quantiles, nodes))


def list_name(relation: Relation, cap: int = 3, view: TrainingView = VIEW, **given: Any) -> str:
    """The name of lists of top-k mode."""
    settings = TopKSource(relation, view, (0.9,), cap, **given).settings
    return name_of(describe(view, relation, (0.9,), None, settings))


def relinked(view: TrainingView) -> TrainingView:
    dense = view.adjacency.toarray()
    dense[0, 1] = dense[1, 0] = 1 - dense[0, 1]
    return replace(view, adjacency=sp.csr_array(dense), label_free_cache={})


def redescribed(view: TrainingView) -> TrainingView:
    attributes = np.array(view.attributes)
    attributes[4, 0] += 1
    return replace(view, attributes=attributes, label_free_cache={}, attribute_cache={})


def relabelled(view: TrainingView) -> TrainingView:
    labels = view.labels.copy()
    known = np.flatnonzero(labels >= 0)[0]
    labels[known] = (labels[known] + 1) % view.num_classes
    return replace(view, labels=labels)


CHANGES = {LINKS: relinked, ATTRIBUTES: redescribed, LABELS: relabelled}


@pytest.mark.parametrize("kind", CHANGES)
@pytest.mark.parametrize(
    "relation",
    [
        Link(),
        AttributeSimilarity(),
        AttributeDistribution(),
        LabelDistribution(),
        AttributeLabelDistribution(),
    ],
    ids=lambda relation: relation.name,
)
def test_a_name_follows_what_the_relation_reads_and_nothing_else(
    kind: str, relation: Relation
) -> None:
    changed = name(CHANGES[kind](VIEW), relation) != name(VIEW, relation)
    assert changed == (kind in relation.reads)


def test_hidden_labels_and_links_change_the_name() -> None:
    known = np.flatnonzero(VIEW.labels >= 0)
    links = np.stack(VIEW.adjacency.nonzero())[:, :2]
    views = [VIEW, VIEW.without_labels(known[:3]), VIEW.without_labels(known[3:6])]
    views.append(VIEW.without_links(links))
    assert len({name(view) for view in views}) == 4


def test_parameters_quantiles_rows_and_relations_change_the_name() -> None:
    named = [
        name(relation=PageRank()),
        name(relation=PageRank(alpha=0.5)),
        name(relation=Link()),
        name(relation=AttributeDistribution(hops=1)),
        name(relation=AttributeDistribution(hops=2)),
        name(relation=PageRank(), quantiles=(0.8,)),
        name(relation=PageRank(), quantiles=(0.8, 0.9)),
        name(relation=PageRank(), nodes=np.array([1, 2])),
        name(relation=PageRank(), nodes=np.array([1, 3])),
    ]
    assert len(set(named)) == len(named)


def test_code_versions_and_devices_change_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    named = {name()}
    with monkeypatch.context() as patch:
        patch.setattr(key, "code_digest", lambda *packages: f"another {packages}")
        named.add(name())
    with monkeypatch.context() as patch:
        patch.setattr(torch, "__version__", "another")
        named.add(name())
    named.add(name(replace(VIEW, device=torch.device("meta"))))
    assert len(named) == 4


def test_a_cap_changes_the_name() -> None:
    named = [name(relation=Link()), list_name(Link()), list_name(Link(), 4)]
    assert len(set(named)) == len(named)


@pytest.mark.parametrize(
    ("relation", "names"),
    [(Link(), 1), (AttributeDistribution(), 3), (LabelDistribution(), 5)],
    ids=lambda value: getattr(value, "name", None),
)
def test_an_index_changes_the_name_of_what_it_may_find(relation: Relation, names: int) -> None:
    """Of factors only; whether few rows are asked for matters where they are of labels."""
    found = {
        list_name(relation, index_threshold=index_past, few_queries=few)
        for index_past in (None, 10, 20, 30, 40)  # no more than 30 rows can be different
        for few in (False, True)
    }
    assert len(found) == names


def test_the_version_of_the_index_changes_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    faiss = pytest.importorskip("faiss")
    relation = AttributeDistribution()
    named = {list_name(relation, index_threshold=10), list_name(relation)}
    monkeypatch.setattr(faiss, "__version__", "another")
    named |= {list_name(relation, index_threshold=10), list_name(relation)}
    assert len(named) == 3


def test_equal_content_has_one_name() -> None:
    again = make_view(30, 0)
    sparse = replace(again, attributes=sp.csr_array(np.asarray(again.attributes)))
    assert name() == name(again) == name(sparse)
    assert name(relation=AttributeDistribution(hops=np.int64(1))) == name(  # type: ignore[arg-type]
        relation=AttributeDistribution(hops=1)
    )


@dataclass(frozen=True)
class Own(Relation):
    name: ClassVar[str] = "link"
    title: ClassVar[str] = "Own"
    reads: ClassVar[frozenset[str]] = frozenset({LINKS})

    def prepare(self, view: TrainingView) -> Rows:
        return lambda nodes: torch.zeros(len(nodes), view.num_nodes)


def test_relations_of_the_user_are_not_kept(tmp_path: object) -> None:
    store = RelationStore(str(tmp_path))  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="Relation 'link' does not declare itself cacheable"):
        store.put(VIEW, Own(), (0.9,), [])
    assert store.listing() == []


def test_code_of_a_users_relation_is_in_its_name(tmp_path: Path) -> None:
    def named(source: str, folder: str) -> str:
        return name(relation=user_module(tmp_path / folder, source).Own())

    first = named(RELATION, "first")
    assert named(RELATION, "again") == first
    assert named(RELATION.replace("0.5", "0.25"), "changed") != first


def test_a_relation_without_source_is_not_stored(tmp_path: Path) -> None:
    module = user_module(tmp_path / "code", RELATION, "gone")
    (tmp_path / "code" / "gone.py").unlink()
    store = RelationStore(tmp_path / "store")
    with pytest.raises(UsageError, match="source of relation 'own' cannot be read"):
        open_or_compute(store, VIEW, module.Own(), (0.9,))
    assert store.listing() == []
