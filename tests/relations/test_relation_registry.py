from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
import torch
from dense import all_rows
from strategies import make_view
from torch import Tensor

from xtcl.errors import UsageError
from xtcl.relations.jaccard import Jaccard
from xtcl.relations.registry import (
    PAPER_RELATIONS,
    forget_relation,
    make_relation,
    register_relation,
    relation_names,
    resolve_relations,
)
from xtcl.relations.relation import Relation, Rows
from xtcl.relations.view import ATTRIBUTES, LINKS, TrainingView

PAPER_NAMES = (
    "link",
    "pagerank",
    "jaccard",
    "topology",
    "graph-distance",
    "attribute-similarity",
    "attribute-distribution",
    "label-distribution",
    "attribute-label-distribution",
)


def same_parity(view: TrainingView) -> Rows:
    """1 where both numbers are even or both are odd."""

    def compute(nodes: Tensor) -> Tensor:
        return (nodes[:, None] % 2 == torch.arange(view.num_nodes) % 2).float()

    return compute


@dataclass(frozen=True)
class SameRemainder(Relation):
    """1 where both numbers leave the same remainder."""

    divisor: int = 3

    name: ClassVar[str] = "same-remainder"
    title: ClassVar[str] = "Same remainder"
    reads: ClassVar[frozenset[str]] = frozenset({LINKS})

    def prepare(self, view: TrainingView) -> Rows:
        def compute(nodes: Tensor) -> Tensor:
            every = torch.arange(view.num_nodes)
            return (nodes[:, None] % self.divisor == every % self.divisor).float()

        return compute


@pytest.fixture
def parity() -> Iterator[str]:
    register_relation("same-parity", same_parity, title="Parity", reads=[ATTRIBUTES])
    yield "same-parity"
    forget_relation("same-parity")


def test_the_paper_has_nine_in_its_order() -> None:
    assert tuple(kind.name for kind in PAPER_RELATIONS) == PAPER_NAMES
    assert tuple(relation.name for relation in resolve_relations("paper")) == PAPER_NAMES
    assert relation_names()[:9] == PAPER_NAMES


@pytest.mark.parametrize("kind", PAPER_RELATIONS)
def test_each_is_made_by_name_and_documented(kind: type[Relation]) -> None:
    assert make_relation(kind.name) == kind()
    assert kind.title
    for part in ("Range:", "Cost:", "Isolated node", "Citation:", ">>>"):
        assert part in str(kind.__doc__)


def test_an_own_function_becomes_a_relation(parity: str) -> None:
    assert relation_names() == (*PAPER_NAMES, parity)
    (relation,) = resolve_relations(parity)
    assert (relation.name, relation.title) == (parity, "Parity")
    assert relation.reads == {ATTRIBUTES}
    assert relation.__doc__ == same_parity.__doc__
    expected = [[float((u - v) % 2 == 0) for v in range(9)] for u in range(9)]
    assert all_rows(relation, make_view(9, 0)).tolist() == expected
    assert make_relation(parity) == make_relation(parity)


def test_own_relations_do_not_mix_up() -> None:
    register_relation("first", same_parity)
    register_relation("second", lambda view: lambda nodes: torch.ones(len(nodes), view.num_nodes))
    try:
        first, second = resolve_relations(["first", "second"])
        assert (first.name, second.name) == ("first", "second")
        assert all_rows(first, make_view(4, 0)).sum() == 8
        assert all_rows(second, make_view(4, 0)).sum() == 16
        assert first.reads == {LINKS}
        assert first.title == "first"
    finally:
        forget_relation("first")
        forget_relation("second")


def test_an_own_class_is_used_as_an_object() -> None:
    relations = resolve_relations(["link", SameRemainder(divisor=4), Jaccard(hops=2)])
    assert [relation.name for relation in relations] == ["link", "same-remainder", "jaccard"]
    assert relations[2] == Jaccard(hops=2)
    np.testing.assert_array_equal(np.diag(all_rows(relations[1], make_view(9, 0)), k=4), 1)


def test_forgetting(parity: str) -> None:
    forget_relation(parity)
    assert relation_names() == PAPER_NAMES
    with pytest.raises(UsageError, match="no relation 'same-parity'"):
        make_relation(parity)
    forget_relation(parity)  # a second time does no harm


@pytest.mark.parametrize("name", PAPER_NAMES)
def test_the_papers_relations_stay(name: str) -> None:
    with pytest.raises(UsageError, match=f"'{name}' is one of the paper's relations"):
        forget_relation(name)
    with pytest.raises(UsageError, match=f"There is a relation '{name}' already"):
        register_relation(name, same_parity)
    assert relation_names() == PAPER_NAMES


def test_an_unknown_name_gets_a_hint_and_the_list() -> None:
    with pytest.raises(UsageError, match=r"'page-rank'.* Did you mean 'pagerank'\? Known: link, "):
        make_relation("page-rank")
    with pytest.raises(UsageError, match=r"There is no relation 'xyz'\. Known: link"):
        resolve_relations(["link", "xyz"])


@pytest.mark.parametrize("chosen", [[], ["link", "link"], ["jaccard", Jaccard(hops=2)]])
def test_no_relation_and_the_same_twice_are_refused(chosen: list[str | Relation]) -> None:
    with pytest.raises(UsageError, match=r"at least one relation, and none twice\.$"):
        resolve_relations(chosen)
