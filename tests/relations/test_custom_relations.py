"""Relations from a matrix or a function: rows, fast paths, caches, and what is refused."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import joblib  # type: ignore[import-untyped]
import numpy as np
import pytest
import scipy.sparse as sp
import torch
from dense import all_rows
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from small_runs import small_graph, small_model, small_split
from strategies import make_graph, make_view
from topk_search_oracle import as_lists, expected, nearest
from torch import Tensor
from user_code import user_module

from xtcl.errors import DataError, UsageError
from xtcl.estimator import XTCL
from xtcl.relations.custom import FunctionRelation, MatrixRelation
from xtcl.relations.jaccard import Jaccard
from xtcl.relations.relation import Relation, Rows
from xtcl.relations.row_source import LevelSource, TopKSource
from xtcl.relations.sparse import SparseRows
from xtcl.relations.store.key import is_storable
from xtcl.relations.store.relation_store import RelationStore
from xtcl.relations.topk import TopK, TopKSearch
from xtcl.relations.view import ATTRIBUTES, LABELS, LINKS, TrainingView

VIEW = make_view(40, 0)


def similarities(count: int = 40, seed: int = 0, density: float = 0.3) -> np.ndarray:
    """A matrix with many zeros and many equal entries."""
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 5, size=(count, count)) / 4
    return np.where(rng.random((count, count)) < density, values, 0.0)


def same_parity(view: TrainingView) -> Rows:
    """1 where both numbers are even or both are odd."""

    def compute(nodes: Tensor) -> Tensor:
        return (nodes[:, None] % 2 == torch.arange(view.num_nodes) % 2).float()

    return compute


def parity_search(view: TrainingView, top: TopK) -> TopKSearch:
    """Finds all nodes of the same parity."""

    def search(nodes: Tensor) -> SparseRows:
        members = [torch.arange(int(u) % 2, view.num_nodes, 2) for u in nodes]
        row = torch.repeat_interleave(
            torch.arange(len(nodes)), torch.tensor([len(each) for each in members])
        )
        return SparseRows(row, torch.cat(members), len(nodes), torch.ones(len(row)))

    return search


# A matrix

FORMS: dict[str, Callable[[np.ndarray], Any]] = {
    "array": np.asarray,
    "list": np.ndarray.tolist,
    "tensor": torch.from_numpy,
    "csr": sp.csr_array,
    "csc matrix": sp.csc_matrix,
    "coo": sp.coo_array,
    "sparse tensor": lambda dense: torch.from_numpy(dense).to_sparse(),
}
forms = pytest.mark.parametrize("form", FORMS)


@forms
def test_rows_pairs_and_matrix_are_those_that_were_given(form: str) -> None:
    matrix = similarities()
    relation = MatrixRelation(FORMS[form](matrix), name="given", title="Given")
    assert (relation.name, relation.title, relation.reads) == ("given", "Given", frozenset())
    assert repr(relation) == "MatrixRelation(name='given')"
    np.testing.assert_array_equal(all_rows(relation, VIEW), matrix)
    np.testing.assert_array_equal(relation.matrix(VIEW), matrix)
    u, v = np.indices((40, 40)).reshape(2, -1)
    of_pairs = relation.pairs_on(VIEW)
    assert of_pairs is not None
    found = of_pairs(torch.from_numpy(u), torch.from_numpy(v))
    np.testing.assert_array_equal(found.reshape(40, 40), matrix)


@forms
@pytest.mark.parametrize("cap", [1, 3, 100])
@pytest.mark.parametrize("quantile", [0.0, 0.5, 0.99])
def test_top_k_lists_are_those_of_whole_rows(form: str, cap: int, quantile: float) -> None:
    relation = MatrixRelation(FORMS[form](similarities()), name="given")
    found = nearest(relation, VIEW, quantile, cap)(torch.arange(40))
    assert as_lists(found) == expected(relation, VIEW, quantile, cap)


@given(seed=st.integers(0, 999), density=st.floats(0, 1), cap=st.integers(1, 12))
def test_sparse_and_dense_are_one(seed: int, density: float, cap: int) -> None:
    matrix, view = similarities(12, seed, density), make_view(12, seed)
    dense, sparse = MatrixRelation(matrix, "same"), MatrixRelation(sp.csr_array(matrix), "same")
    np.testing.assert_array_equal(all_rows(dense, view), all_rows(sparse, view))
    nodes = torch.arange(12)
    lists = [as_lists(nearest(each, view, 0.5, cap)(nodes)) for each in (dense, sparse)]
    assert lists[0] == lists[1]


def test_a_sparse_matrix_computes_no_whole_row(monkeypatch: pytest.MonkeyPatch) -> None:
    relation = MatrixRelation(sp.csr_array(similarities()), "given")

    def refused(self: MatrixRelation, view: TrainingView) -> Rows:
        raise AssertionError("whole rows")

    monkeypatch.setattr(MatrixRelation, "prepare", refused)
    assert len(TopKSource(relation, VIEW, (0.9,), cap=3).rows(torch.arange(40)).row)
    assert relation.pairs(VIEW, [[0, 1], [2, 3]]).shape == (2,)


def test_duplicates_and_zeros_of_a_sparse_matrix_are_put_in_order() -> None:
    entries = ([0.25, 0.5, 0.0, 1.0], ([0, 0, 1, 2], [1, 1, 2, 0]))
    relation = MatrixRelation(sp.coo_array(entries, shape=(3, 3)), "given")
    assert relation == MatrixRelation(
        sp.csr_array([[0, 0.75, 0], [0, 0, 0], [1.0, 0, 0]]), name="given"
    )


def test_the_matrix_is_a_copy() -> None:
    dense, sparse = similarities().astype("f4"), sp.csr_array(similarities(), dtype="f4")
    for matrix, numbers in ((dense, dense), (sparse, sparse.data)):
        relation = MatrixRelation(matrix, "given")
        before = all_rows(relation, VIEW)
        numbers[:] = 0.125
        again = all_rows(relation, make_view(40, 0))
        np.testing.assert_array_equal(again, before)


@pytest.mark.parametrize("wrap", [np.asarray, sp.csr_array])
@pytest.mark.parametrize(
    ("value", "shown"), [(1.5, "1.5"), (-0.25, "-0.25"), (np.nan, "nan"), (np.inf, "inf")]
)
def test_a_similarity_out_of_range_is_named(wrap: Any, value: float, shown: str) -> None:
    matrix = similarities()
    matrix[3, 8] = value
    with pytest.raises(UsageError, match=rf"'given' .* \[0, 1\], but nodes 3 and 8 have {shown}: "):
        MatrixRelation(wrap(matrix), "given")


def test_rounding_above_1_is_cut() -> None:
    for wrap in (np.asarray, sp.csr_array):
        relation = MatrixRelation(wrap(np.eye(40) * (1 + 5e-7)), "given")
        assert all_rows(relation, VIEW).max() == 1


@pytest.mark.parametrize(
    ("matrix", "match"),
    [
        (np.ones((3, 4)), r"'given' must be numbers \[V, V\], .* not float64 \[3, 4\]"),
        (np.ones(4), r"not float64 \[4\]"),
        (sp.csr_array((2, 3)), r"not float64 \[2, 3\]"),
        ([["a"]], r"not <U1 \[1, 1\]"),
        (np.ones((2, 2), dtype=complex), "not complex128"),
        (None, "not object"),
    ],
)
def test_what_is_no_square_matrix_is_refused(matrix: Any, match: str) -> None:
    with pytest.raises(DataError, match=match):
        MatrixRelation(matrix, "given")


@pytest.mark.parametrize("wrap", [np.asarray, sp.csr_array])
def test_a_matrix_of_another_graph_is_refused(wrap: Any) -> None:
    relation = MatrixRelation(wrap(similarities(39)), "given")
    match = r"'given' is a matrix of 39 x 39 similarities, but the graph has 40 nodes"
    with pytest.raises(DataError, match=match):
        relation.on(VIEW)
    with pytest.raises(DataError, match=match):
        TopKSource(relation, VIEW, (0.9,), cap=3).rows(torch.arange(2))
    with pytest.raises(DataError, match=match):
        relation.pairs(VIEW, [[0], [1]])


# Functions


def test_a_function_gives_rows_and_its_description() -> None:
    relation = FunctionRelation(same_parity, "parity", reads=ATTRIBUTES)
    assert (relation.name, relation.title) == ("parity", "parity")
    assert relation.reads == {ATTRIBUTES}
    assert relation.__doc__ == same_parity.__doc__
    assert relation.cacheable
    assert not FunctionRelation(same_parity, "parity").cacheable
    assert FunctionRelation(same_parity, "parity").reads == {LINKS}
    plain = np.arange(40)
    np.testing.assert_array_equal(all_rows(relation, VIEW), (plain[:, None] - plain) % 2 == 0)


def test_a_function_may_bring_its_search() -> None:
    calls = []

    def counted(view: TrainingView, top: TopK) -> TopKSearch:
        calls.append(top)
        return parity_search(view, top)

    slow = FunctionRelation(same_parity, "parity")
    fast = FunctionRelation(same_parity, "parity", topk=counted)
    lists = [as_lists(nearest(each, VIEW, 0.9, 3)(torch.arange(40))) for each in (slow, fast)]
    assert lists[0] == lists[1]
    assert calls == [TopK.of(0.9, 3, 40)]
    assert slow != fast


# Caches and the store


def counting(calls: list[TrainingView]) -> Callable[[TrainingView], Rows]:
    def prepare(view: TrainingView) -> Rows:
        calls.append(view)
        return same_parity(view)

    return prepare


@pytest.mark.parametrize(
    ("reads", "cacheable", "computed"),
    [((), None, 1), ((LINKS,), None, 2), ((LABELS,), True, 3), ((), False, 3), (None, None, 3)],
)
def test_rows_are_shared_by_views_that_agree_in_what_is_read(
    reads: tuple[str, ...] | None, cacheable: bool | None, computed: int
) -> None:
    calls: list[TrainingView] = []
    relation = FunctionRelation(counting(calls), "parity", reads=reads, cacheable=cacheable)
    view = make_view(40, 0)
    links = np.stack(np.triu(view.adjacency.toarray()).nonzero())[:, :2]
    for each in (view, view.without_labels(np.arange(5)), view.without_links(links)):
        relation.on(each)
    assert len(calls) == computed


GIVEN = '''
import torch

scale = torch.ones(40)


def half(view):
    """A docstring."""
    return lambda nodes: torch.full((len(nodes), 40), 0.5) * scale


def search(view, top):
    return None
'''


def test_a_stored_function_is_found_by_its_code_and_what_it_reads(tmp_path: Path) -> None:
    def digest(old: str = "0.5", new: str = "0.5") -> str | None:
        module = user_module(tmp_path / new.replace("/", ""), GIVEN.replace(old, new))
        relation = FunctionRelation(module.half, "half", topk=module.search, cacheable=True)
        assert is_storable(relation)
        return relation.content_digest()

    first = digest()
    assert first is not None
    assert digest() == first == digest("A docstring", "Another")
    assert digest("0.5", "0.25") != first
    assert digest("ones(40)", "zeros(40)") != first
    assert digest("return None", "return 0") != first


def test_code_without_source_is_not_stored(tmp_path: Path) -> None:
    names: dict[str, Any] = {"__name__": "typed_in"}
    exec("def typed(view):\n    return None\n", names)  # noqa: S102
    typed = FunctionRelation(names["typed"], "typed", cacheable=True)
    assert typed.content_digest() is None
    assert not is_storable(typed)
    assert not is_storable(FunctionRelation(CallableParity(), "parity", cacheable=True))
    assert not is_storable(FunctionRelation(same_parity, "parity"))
    assert is_storable(FunctionRelation(same_parity, "parity", cacheable=True))
    assert is_storable(FunctionRelation(same_parity, "p", topk=parity_search, cacheable=True))


class CallableParity:
    def __call__(self, view: TrainingView) -> Rows:
        return same_parity(view)


OWN = (
    MatrixRelation(sp.csr_array(similarities()), "matrix"),
    MatrixRelation(similarities(), "dense"),
    FunctionRelation(same_parity, "parity", topk=parity_search, cacheable=True, reads=()),
)
own_relations = pytest.mark.parametrize("relation", OWN, ids=repr)


@own_relations
@pytest.mark.parametrize("cap", [None, 3])
def test_rows_are_stored_and_read(
    relation: Relation, cap: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stored() -> tuple[np.ndarray, ...]:
        view, store = make_view(40, 0), RelationStore(tmp_path)
        source = (
            LevelSource(relation, view, (0.9,))
            if cap is None
            else TopKSource(relation, view, (0.9,), cap)
        )
        with store.load_or_compute(source) as file:
            return file.rows(0, 40).to_numpy()

    cold = stored()
    assert len(cold[0])
    monkeypatch.delattr(type(relation), "prepare")
    monkeypatch.delattr(type(relation), "topk")
    for one, other in zip(cold, stored(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_another_matrix_is_another_file(tmp_path: Path) -> None:
    store = RelationStore(tmp_path)
    for seed in (0, 1, 0):
        store.load_or_compute(
            LevelSource(MatrixRelation(similarities(seed=seed), "given"), VIEW, (0.9,))
        ).close()
    assert len(store.listing()) == 2


# Copies


@own_relations
@pytest.mark.parametrize(
    "copied",
    [copy.copy, copy.deepcopy, lambda each: pickle.loads(pickle.dumps(each))],  # noqa: S301
    ids=["copy", "deepcopy", "pickle"],
)
def test_copies_are_equal_and_give_the_same_rows(
    relation: Relation, copied: Callable[[Relation], Relation]
) -> None:
    again = copied(relation)
    assert again == relation
    assert hash(again) == hash(relation)
    assert again.content_digest() == relation.content_digest()
    np.testing.assert_array_equal(all_rows(again, make_view(40, 0)), all_rows(relation, VIEW))


def test_a_large_matrix_is_shared_by_deep_copies() -> None:
    assert copy.deepcopy(OWN[1]) is OWN[1]


def test_a_lambda_can_be_copied_and_sent_to_workers_but_not_pickled() -> None:
    relation = FunctionRelation(
        lambda view: lambda nodes: torch.ones(len(nodes), view.num_nodes), name="all"
    )
    model = XTCL(relations=[relation, "link"], epochs=1, width=4).fit(make_graph(30, 0))
    for again in (copy.copy(model), copy.deepcopy(model), clone(model)):
        assert again.relations == [relation, "link"]
    with pytest.raises(
        UsageError, match=r"'all' cannot be pickled: .* Define it with def at the top"
    ):
        pickle.dumps(model)
    (sent,) = joblib.Parallel(n_jobs=2)([joblib.delayed(type)(relation)])
    assert sent.__name__ == "FunctionRelation"


@own_relations
def test_a_model_with_one_can_be_cloned_fitted_and_pickled(relation: Relation) -> None:
    graph = small_graph()
    nodes = graph.num_nodes
    given: Relation = relation
    if isinstance(relation, MatrixRelation):
        given = MatrixRelation(similarities(nodes), relation.name)
    model = clone(small_model(relations=["link", given], epochs=2))
    assert model.relations == ["link", given]
    model.fit(graph, small_split(graph, "nodes"))
    again = pickle.loads(pickle.dumps(model))  # noqa: S301
    assert again.relation_weights_ == model.relation_weights_
    assert again.explain(0, 1) == model.explain(0, 1)


def test_equality() -> None:
    matrix = similarities()
    one = MatrixRelation(matrix, "one")
    assert one == MatrixRelation(matrix.tolist(), "one")
    assert one not in (
        MatrixRelation(matrix, "other"),
        MatrixRelation(similarities(seed=1), "one"),
        MatrixRelation(matrix, "one", title="Title"),
        FunctionRelation(same_parity, "one"),
        Jaccard(),
    )
    function = FunctionRelation(same_parity, "one")
    assert function == FunctionRelation(same_parity, "one")
    assert function not in (
        FunctionRelation(same_parity, "one", cacheable=True),
        FunctionRelation(same_parity, "one", reads=()),
        FunctionRelation(same_parity, "one", topk=parity_search),
        FunctionRelation(counting([]), "one"),
    )


def test_a_subclass_is_told_apart() -> None:
    class Halved(MatrixRelation):
        def prepare(self, view: TrainingView) -> Rows:
            rows = super().prepare(view)
            return lambda nodes: rows(nodes) / 2

    matrix = sp.csr_array(make_graph(40, 0).adjacency)
    assert Halved(matrix, "given") != MatrixRelation(matrix, "given")
    halved = Halved(matrix, "given")
    assert all_rows(halved, VIEW).max() == 0.5
    assert not halved.cacheable
    assert halved.content_digest() != MatrixRelation(matrix, "given").content_digest()


def constant(view: Any) -> Any:
    return lambda nodes: torch.ones(len(nodes), view.num_nodes)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"function": 3}, r"is 3, which cannot be called: give a function of a TrainingView"),
        ({"function": lambda: 5}, r"'mine' must take a TrainingView \(too many positional"),
        ({"function": lambda view: 5}, r"'mine' returns is 5, which .* a function of nodes \[b\]"),
        ({"function": lambda view: lambda: 5}, r"'mine' returns must take nodes \[b\] \(too many"),
        ({"topk": 3}, r"topk= of relation 'mine' is 3, which cannot be called"),
        ({"reads": 3}, r"reads=3 of relation 'mine' must be names, such as \['links'\]"),
        ({"name": 3}, r"A relation cannot be called 3: give name= a string"),
    ],
)
def test_what_is_no_function_of_a_relation_is_named(given: dict[str, Any], sentence: str) -> None:
    arguments: dict[str, Any] = {"function": constant, "name": "mine", **given}
    with pytest.raises(UsageError, match=sentence):
        FunctionRelation(**arguments).rows(small_graph(), [0])
