from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from dense import all_rows
from strategies import make_view
from torch import Tensor

from xtcl.errors import UsageError
from xtcl.relations.attribute_label_distribution import AttributeLabelDistribution
from xtcl.relations.custom import FunctionRelation, MatrixRelation
from xtcl.relations.jaccard import Jaccard
from xtcl.relations.link import Link
from xtcl.relations.registry import (
    PAPER_RELATIONS,
    forget_relation,
    make_relation,
    register_relation,
    relation_names,
    relation_title,
    resolve_relations,
)
from xtcl.relations.relation import Relation, Rows
from xtcl.relations.topk import TopK
from xtcl.relations.view import ATTRIBUTES, LABELS, LINKS, TrainingView

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


def test_the_linked_ones_compare_attributes_and_labels_of_linked_nodes_only() -> None:
    relations = resolve_relations("linked")
    assert [r.name for r in relations] == [name for name in PAPER_NAMES if name != "pagerank"]
    assert [r.name for r in relations if getattr(r, "linked_only", False)] == [
        "attribute-similarity",
        "attribute-distribution",
        "label-distribution",
        "attribute-label-distribution",
    ]
    assert resolve_relations("linked")[0] == resolve_relations("paper")[0]


def test_names_stand_for_the_printed_form_where_it_is_asked_for() -> None:
    """An object is what its user made of it."""
    name = "attribute-label-distribution"
    own = AttributeLabelDistribution(quantile=0.5)
    printed = AttributeLabelDistribution(thresholded=False)
    assert resolve_relations("paper", printed=True)[-1] == printed
    assert resolve_relations([name, "link"], printed=True) == (printed, Link())
    assert resolve_relations([own], printed=True) == (own,)
    assert resolve_relations("paper")[-1] == AttributeLabelDistribution()


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


def relation_that_gives(found: Any) -> Relation:
    """A registered function, its answer computed from `found` and the nodes asked for."""

    def prepare(view: TrainingView) -> Rows:
        return lambda nodes: found(nodes, view.num_nodes)

    register_relation("mine", prepare)
    try:
        return make_relation("mine")
    finally:
        forget_relation("mine")


@pytest.mark.parametrize(
    ("found", "match"),
    [
        (lambda nodes, count: np.ones((len(nodes), count), dtype=int), "of floats, not ndarray"),
        (
            lambda nodes, count: sp.csr_array(np.ones((len(nodes), count))),
            "not csr_array: .*toarray",
        ),
        (lambda nodes, count: np.ones((len(nodes), count - 1)), r"\[64, 9\], but gave \[64, 8\]"),
        (lambda nodes, count: None, "of floats, not NoneType"),
        (lambda nodes, count: torch.ones(len(nodes), count) > 0, "of floats, not torch.bool"),
        (lambda nodes, count: torch.ones(len(nodes), count - 1), r"\[64, 9\], but gave \[64, 8\]"),
        (lambda nodes, count: torch.ones(count, count), r"\[64, 9\], but gave \[9, 9\]"),
        (lambda nodes, count: torch.tensor(1.0), r"\[64, 9\], but gave \[\]"),
    ],
)
def test_the_kind_and_shape_of_an_answer_are_checked(found: Any, match: str) -> None:
    with pytest.raises(UsageError, match=f"Relation 'mine' must compute .*{match}"):
        all_rows(relation_that_gives(found), make_view(9, 0))


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_arrays_count_as_tensors(kind: Any) -> None:
    relation = relation_that_gives(
        lambda nodes, count: np.tile(nodes.numpy()[:, None] / count, count).astype(kind)[:, ::-1]
    )
    expected = np.tile(np.arange(9)[:, None] / 9, 9).astype(np.float32)
    np.testing.assert_array_equal(all_rows(relation, make_view(9, 0)), expected)
    too_large = relation_that_gives(lambda nodes, count: np.full((len(nodes), count), kind(2)))
    with pytest.raises(UsageError, match=r"'mine'.* nodes 0 and 0 have 2: scale"):
        all_rows(too_large, make_view(9, 0))


def test_rows_by_scipy_say_that_nodes_are_a_tensor() -> None:
    view = make_view(9, 0)
    links = view.adjacency
    by_scipy = relation_that_gives(lambda nodes, count: links[nodes.numpy()].toarray())
    np.testing.assert_array_equal(all_rows(by_scipy, view), links.toarray())
    wrong = relation_that_gives(lambda nodes, count: torch.from_numpy(links[nodes].toarray()))
    with pytest.raises(
        UsageError,
        match=r"relation 'mine' cannot be computed: its function raises \w+: .* It is given nodes "
        r"as a tensor: for NumPy and SciPy take nodes\.cpu\(\)\.numpy\(\)\.$",
    ) as refused:
        all_rows(wrong, view)
    assert refused.value.__cause__ is not None


@pytest.mark.parametrize(
    "text", ["CUDA out of memory", "DefaultCPUAllocator: can't allocate memory"]
)
def test_memory_that_runs_out_is_no_error_of_the_relation(text: str) -> None:
    def found(nodes: Tensor, count: int) -> Tensor:
        raise RuntimeError(text)

    with pytest.raises(RuntimeError, match=text) as raised:
        all_rows(relation_that_gives(found), make_view(9, 0))
    assert not isinstance(raised.value, UsageError)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -0.25, 1.5])
def test_values_outside_the_range_are_named_in_any_tile(value: float) -> None:
    def found(nodes: Tensor, count: int) -> Tensor:
        rows = torch.ones(len(nodes), count)
        rows[nodes == 70, 5] = value
        return rows

    with pytest.raises(UsageError, match=rf"'mine'.* but nodes 70 and 5 have {value:g}: scale"):
        all_rows(relation_that_gives(found), make_view(90, 0))


def test_rounding_above_one_is_cut() -> None:
    relation = relation_that_gives(
        lambda nodes, count: torch.full((len(nodes), count), 1 + 5e-7, dtype=torch.float64)
    )
    assert (all_rows(relation, make_view(9, 0)) == 1).all()


@dataclass(frozen=True)
class TooLarge(SameRemainder):
    """Not in [0, 1]."""

    def prepare(self, view: TrainingView) -> Rows:
        return lambda nodes: torch.full((len(nodes), view.num_nodes), 2.0)


def test_values_of_an_own_class_are_checked() -> None:
    with pytest.raises(UsageError, match=r"'same-remainder'.* nodes 0 and 0 have 2:"):
        all_rows(TooLarge(), make_view(9, 0))


def own_class(decorated: bool = True, **parts: Any) -> type[Relation]:
    whole = {"name": "mine", "title": "Mine", "reads": frozenset({LINKS}), **parts}
    body = {part: value for part, value in whole.items() if value is not None}
    kind = type("Mine", (Relation,), {"prepare": lambda self, view: same_parity(view), **body})
    return dataclass(frozen=True)(kind) if decorated else kind


@pytest.mark.parametrize(
    ("kind", "match"),
    [
        (own_class(decorated=False), r"'Mine' must be a dataclass: put @dataclass\(frozen=True\)"),
        (own_class(name=None), "'Mine' needs a name"),
        (own_class(title=""), "'Mine' needs a title"),
        (own_class(reads=None), "'Mine' needs reads: .* not None"),
        (own_class(reads="links"), "'Mine' needs reads: .* not 'links'"),
        (own_class(reads=frozenset({"edges"})), "'Mine' needs reads: a frozenset of attributes, "),
    ],
)
def test_an_unfinished_class_is_refused(kind: Any, match: str) -> None:
    with pytest.raises(UsageError, match=match):
        resolve_relations([kind()])
    with pytest.raises(UsageError, match=match):
        register_relation("mine", kind)
    assert "mine" not in relation_names()


def test_only_relations_and_known_evidence_are_registered() -> None:
    with pytest.raises(UsageError, match=r"'int' must derive from xtcl\.Relation"):
        register_relation("mine", int)
    with pytest.raises(UsageError, match=r"'mine' needs reads: .*'edges'"):
        register_relation("mine", same_parity, reads="edges")
    assert "mine" not in relation_names()


def test_rows_that_carry_a_gradient_are_taken_without_it() -> None:
    def learned(view: TrainingView) -> Rows:
        weight = torch.ones((), requires_grad=True)
        return lambda nodes: weight * torch.full((len(nodes), view.num_nodes), 0.5)

    register_relation("learned", learned, reads=[LINKS])
    try:
        rows = make_relation("learned").on(make_view(50, 0))(torch.arange(50))
    finally:
        forget_relation("learned")
    assert not rows.requires_grad


# Matrices, options, and names that are registered again

MIRROR = np.eye(9)[::-1]


@pytest.fixture
def mine() -> Iterator[str]:
    yield "mine"
    forget_relation("mine")


@pytest.mark.parametrize("matrix", [MIRROR, sp.csr_array(MIRROR), MIRROR.tolist()])
def test_a_matrix_becomes_a_relation(mine: str, matrix: Any) -> None:
    register_relation(mine, matrix, title="Mirror")
    relation = make_relation(mine)
    assert relation == MatrixRelation(matrix, mine, title="Mirror")
    assert relation_title(mine) == "Mirror"
    np.testing.assert_array_equal(all_rows(relation, make_view(9, 0)), MIRROR)


def test_a_name_that_is_registered_again_gets_the_new_meaning(mine: str) -> None:
    @dataclass(frozen=True)
    class Mine(SameRemainder):
        name: ClassVar[str] = "mine"

    first = make_view(9, 0)
    register_relation(mine, same_parity)
    register_relation(mine, lambda view: lambda nodes: torch.ones(len(nodes), view.num_nodes))
    assert all_rows(make_relation(mine), first).all()
    register_relation(mine, MIRROR)
    np.testing.assert_array_equal(all_rows(make_relation(mine), first), MIRROR)
    register_relation(mine, Mine)
    assert make_relation(mine, divisor=5) == Mine(5)
    assert relation_names() == (*PAPER_NAMES, mine)


def test_options_of_a_function(mine: str) -> None:
    def search(view: TrainingView, top: TopK) -> None:
        return None

    register_relation(mine, same_parity, reads="labels", topk=search, cacheable=True)
    expected = FunctionRelation(same_parity, mine, reads=[LABELS], topk=search, cacheable=True)
    assert make_relation(mine) == expected


@pytest.mark.parametrize("given", [MIRROR, SameRemainder])
@pytest.mark.parametrize("option", ["reads", "topk", "cacheable"])
def test_options_of_a_function_are_of_no_other_use(mine: str, given: Any, option: str) -> None:
    options: Any = {option: False if option == "cacheable" else ()}
    with pytest.raises(UsageError, match=f"^{option} of relation 'mine' cannot be given: only a f"):
        register_relation(mine, given, **options)
    assert mine not in relation_names()


def test_a_matrix_or_function_takes_no_parameters(mine: str) -> None:
    register_relation(mine, MIRROR)
    with pytest.raises(UsageError, match=r"'mine' was registered as MatrixRelation .* scale"):
        make_relation(mine, scale=2)


def test_an_object_is_used_as_it_is(mine: str) -> None:
    relation = MatrixRelation(MIRROR, mine)
    assert resolve_relations(relation) == resolve_relations([relation]) == (relation,)
    with pytest.raises(UsageError, match=r"put the object MatrixRelation.* into relations="):
        register_relation(mine, relation)


@pytest.mark.parametrize(
    ("item", "match"),
    [
        (MIRROR, r"not a ndarray: wrap a matrix, MatrixRelation\("),
        (sp.csr_array(MIRROR), r"not a csr_array: wrap a matrix, MatrixRelation\("),
        (sp.csr_array(MIRROR), r", or give it a name with register_relation\('.*', matrix\)\."),
        (same_parity, r"not a function: wrap the function, FunctionRelation\("),
        (Jaccard, r"make an object of the class, Jaccard\(\)"),
    ],
)
def test_what_is_no_relation_gets_a_remedy(item: Any, match: str) -> None:
    with pytest.raises(UsageError, match=match):
        resolve_relations(["link", item])


@pytest.mark.parametrize("name", [3, None, "", " "])
def test_a_name_that_is_none_is_refused(name: Any) -> None:
    with pytest.raises(UsageError, match=rf"A relation cannot be called {name!r}: give a name"):
        register_relation(name, np.eye(3))
    with pytest.raises(UsageError, match=r"There is no relation 'lnk'\. Did you mean 'link'"):
        make_relation("lnk")


def test_a_parameter_that_a_relation_does_not_have_is_named() -> None:
    with pytest.raises(UsageError, match=r"'pagerank' has no parameter 'foo'\. Known: alpha\."):
        make_relation("pagerank", foo=2)
    with pytest.raises(UsageError, match=r"'link' has no parameter 'foo'\. It has none\."):
        make_relation("link", foo=2)
    with pytest.raises(UsageError, match="Jaccard needs hops of at least 1, not a"):
        make_relation("jaccard", hops="a")
    with pytest.raises(UsageError, match="GraphDistance needs one search at least, not a"):
        make_relation("graph-distance", searches="a")
    with pytest.raises(UsageError, match="PageRank needs 0 < alpha < 1, not a"):
        make_relation("pagerank", alpha="a")
