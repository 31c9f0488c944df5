"""Top-k search against the exact rows, for each relation, on any device."""

from __future__ import annotations

import itertools
import tracemalloc
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from dense import all_rows
from hypothesis import given
from hypothesis import strategies as st
from strategies import make_view, views
from topk_search_oracle import (
    Lists,
    as_lists,
    best_of,
    expected,
    kth_of,
    nearest,
    recall,
    whole_rows,
)
from torch.utils._python_dispatch import TorchDispatchMode

from xtcl.errors import UsageError
from xtcl.graph.datasets.load import load_dataset
from xtcl.relations import cosine, pagerank, topk
from xtcl.relations import topk as parts
from xtcl.relations.attribute_distribution import AttributeDistribution
from xtcl.relations.attribute_label_distribution import AttributeLabelDistribution
from xtcl.relations.attribute_similarity import AttributeSimilarity
from xtcl.relations.graph_distance import GraphDistance
from xtcl.relations.jaccard import Jaccard
from xtcl.relations.label_distribution import LabelDistribution
from xtcl.relations.link import Link
from xtcl.relations.pagerank import TOLERANCE, PageRank, Push, ScipyPush, TorchPush, push_error
from xtcl.relations.relation import Relation, Rows
from xtcl.relations.sparse import CSRGraph, SparseRows
from xtcl.relations.thresholds import rank_from_top
from xtcl.relations.topk import TINY, TopK, kth_largest, list_levels, topk_from_dense, topk_of_lists
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


@pytest.mark.slow
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


@pytest.mark.slow
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


# Hubs: what is listed at once stays bounded, and no array has V times V entries.

LEAVES = 3000


def star() -> TrainingView:
    """A hub of degree LEAVES: every leaf has that many paths of two steps."""
    links = np.stack([np.zeros(LEAVES, dtype=np.int64), np.arange(1, LEAVES + 1)])
    return TrainingView(
        attributes=np.zeros((LEAVES + 1, 0), dtype=np.float32),
        adjacency=TrainingView.adjacency_of(links, LEAVES + 1),
        labels=np.full(LEAVES + 1, -1),
        num_classes=0,
    )


class LargestTensor(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes how many entries the largest tensor has that torch makes."""

    entries = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        results = func(*args, **(kwargs or {}))
        for result in results if isinstance(results, (tuple, list)) else [results]:
            if isinstance(result, torch.Tensor):
                self.entries = max(self.entries, result.numel())
        return results


LISTED = 30_000


sparse = pytest.mark.parametrize(
    "relation", [Link(), PageRank(), Jaccard(), Topology(), GraphDistance()], ids=repr
)


@pytest.fixture
def _little_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """One thread, because a mode of torch sees what its own thread does and nothing else."""
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    monkeypatch.setattr(topk, "MAX_ITEMS", LISTED)
    monkeypatch.setattr(pagerank, "SOURCES", 1000)


@pytest.mark.slow
@sparse
@pytest.mark.usefixtures("_little_at_once")
def test_a_hub_does_not_fill_the_memory(relation: Relation) -> None:
    search = nearest(relation, star(), 0.99, 5)
    with LargestTensor():  # type: ignore[no-untyped-call]
        torch.zeros(1)  # the first use of a mode imports much
    tracemalloc.start()  # of NumPy and SciPy
    with LargestTensor() as largest:  # type: ignore[no-untyped-call]
        found = search(torch.arange(LEAVES + 1))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (found.length <= 5).all()
    assert peak < 200 * LISTED < 4 * LEAVES**2
    # Topology adds as many nodes that share nothing.
    assert largest.entries < 3 * LISTED < LEAVES**2


@pytest.mark.usefixtures("_little_at_once")
def test_a_hub_does_not_fill_the_memory_of_the_push_by_torch() -> None:
    view = star()
    push = TorchPush(view.links(), 0.85, push_error(view, 5))
    with LargestTensor() as largest:  # type: ignore[no-untyped-call]
        for _, lists in push(torch.arange(LEAVES + 1)):
            assert len(lists.row) < 3 * LISTED
    # A round of pushes may double what was there.
    assert largest.entries < 3 * LISTED < LEAVES**2


# Forward push: the proven bound, what it finds, and how much memory it takes.


def estimates(view: TrainingView, alpha: float, error: float) -> np.ndarray:
    return whole(ScipyPush(view.adjacency, alpha, error), view.num_nodes)


def whole(push: Push, num_nodes: int) -> np.ndarray:
    """All estimates that a push makes."""
    estimate = np.zeros((num_nodes, num_nodes))
    for nodes, lists in push(torch.arange(num_nodes)):
        estimate[nodes[lists.row], lists.node] = lists.values
    return estimate


@given(views(), st.sampled_from([0.3, 0.85, 0.95]), st.sampled_from([0.3, 0.03, 1e-3, 1e-6]))
def test_is_below_the_exact_row_by_no_more_than_the_bound(
    view: TrainingView, alpha: float, error: float
) -> None:
    missing = all_rows(PageRank(alpha), view) - estimates(view, alpha, error)
    rounding = 1e-6
    assert missing.min() >= -rounding
    assert (missing <= error * np.diff(view.adjacency.indptr) + rounding).all()


@pytest.mark.parametrize("shape", ["random", "star", "cliques"])
def test_the_bound_holds_for_what_is_given(shape: str) -> None:
    view = make_view(400, 2, shape)
    exact = all_rows(PageRank(), view)
    degree = np.diff(view.adjacency.indptr)
    found = as_lists(nearest(PageRank(), view, 0.9, 20)(torch.arange(400)))
    for u, pairs in enumerate(found):
        for v, value in pairs:
            assert -1e-6 <= exact[u, v] - value <= push_error(view, 20) * degree[v] + 1e-6


def test_finds_most_of_the_best_on_cora() -> None:
    view = TrainingView.of(load_dataset("cora"))
    top = TopK(16, 16)
    nodes = torch.arange(0, view.num_nodes, 5)
    found = nearest(PageRank(), view, 0.99, 16)(nodes)
    exact = topk_from_dense(PageRank().on(view), top)(nodes)
    assert recall(found, exact) > 0.85


def test_a_small_memory_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    view = make_view(400, 2)
    everything = as_lists(nearest(PageRank(), view, 0.9, 10)(torch.arange(400)))
    monkeypatch.setattr(topk, "MAX_ITEMS", 300)
    monkeypatch.setattr(pagerank, "SOURCES", 300)
    assert as_lists(nearest(PageRank(), view, 0.9, 10)(torch.arange(400))) == everything


# Searches on every device that is there, and PageRank's push by torch and by SciPy.

devices = pytest.mark.parametrize("device", ["cpu", *["cuda"] * torch.cuda.is_available()])


SPARSE = COUNTED[:-1]


@pytest.fixture
def _torch_pushes(monkeypatch: pytest.MonkeyPatch) -> None:
    """PageRank is pushed by torch on a CPU, too."""

    def push(adjacency: sp.csr_array, alpha: float, error: float) -> TorchPush:
        links = CSRGraph.from_scipy(adjacency, torch.device("cpu"))
        return TorchPush(links, alpha, error)

    monkeypatch.setattr(pagerank, "ScipyPush", push)


def moved(view: TrainingView, device: str) -> TrainingView:
    return replace(view, device=torch.device(device), label_free_cache={}, attribute_cache={})


def found(relation: Relation, view: TrainingView, quantile: float, k: int) -> Lists:
    return as_lists(nearest(relation, view, quantile, k)(torch.arange(view.num_nodes)))


@devices
@pytest.mark.parametrize("relation", SPARSE, ids=repr)
@pytest.mark.parametrize("shape", ["random", "star", "cliques", "isolated"])
@pytest.mark.parametrize("k", [3, 20])
def test_are_the_best_of_the_exact_row_but_for_rounding(
    relation: Relation, shape: str, k: int, device: str
) -> None:
    """Of logarithms on another device."""
    view = make_view(150, 1, shape)
    exact = expected(relation.in_topk_mode(), view, 0.9, k)
    for one, other in zip(found(relation, moved(view, device), 0.9, k), exact, strict=True):
        assert dict(one) == pytest.approx(dict(other), rel=1e-6)


@devices
@pytest.mark.parametrize("shape", ["random", "star", "cliques", "isolated"])
@pytest.mark.parametrize("k", [3, 20])
def test_both_pushes_find_the_same_but_for_rounding(
    shape: str, k: int, device: str, request: pytest.FixtureRequest
) -> None:
    """Of sums, which add up in another order."""
    view = make_view(150, 1, shape)
    by_scipy = found(PageRank(), view, 0.9, k)
    request.getfixturevalue("_torch_pushes")
    _are_alike_but_for_rounding(by_scipy, found(PageRank(), moved(view, device), 0.9, k))


def _are_alike_but_for_rounding(lists: Lists, others: Lists) -> None:
    """Where some are equal but for rounding, it decides who of them is last, and how many are."""
    close = partial(pytest.approx, rel=1e-5, abs=10 * TOLERANCE)
    for one, other in zip(lists, others, strict=True):
        shorter, longer = sorted(
            (sorted(dict(each).values())[::-1] for each in (one, other)), key=len
        )
        shorter += shorter[-1:] * (len(longer) - len(shorter))
        assert shorter == close(longer)
        common = dict(one).keys() & dict(other).keys()
        surely = [node for node, value in one if value > (1 + 1e-5) * longer[-1]]
        assert common >= set(surely)
        for node in common:
            assert dict(one)[node] == close(dict(other)[node])


@given(views(), st.sampled_from([0.3, 0.85, 0.95]), st.sampled_from([0.3, 0.03, 1e-3, 1e-6]))
def test_pushes_to_the_same_estimates(view: TrainingView, alpha: float, error: float) -> None:
    estimate = whole(TorchPush(view.links(), alpha, error), view.num_nodes)
    exact = estimates(view, alpha, error)
    np.testing.assert_allclose(estimate, np.where(exact > 1e-7, exact, 0.0), rtol=1e-9, atol=1e-12)


@pytest.mark.slow
@pytest.mark.usefixtures("_torch_pushes")
@devices
@every_relation
@pytest.mark.parametrize("attributes", ["counts", "signed"])
def test_are_the_same_however_asked_nearest_on_device(
    relation: Relation, attributes: str, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = moved(make_view(300, 5, "random", attributes), device)
    search = nearest(relation, view, 0.9, 7)
    everything = as_lists(search(torch.arange(300)))
    order = torch.from_numpy(np.random.default_rng(0).permutation(300))
    assert as_lists(search(order)) == [everything[node] for node in order]
    for most, sources in ((100, 41), (1000, 7), (1, 1)):
        for name in ("MAX_ITEMS", "MAX_ITEMS_GPU"):
            monkeypatch.setattr(topk, name, most)
        for name in ("SOURCES", "SOURCES_GPU"):
            monkeypatch.setattr(pagerank, name, sources)
        for block in torch.split(order, 41):
            assert as_lists(search(block)) == [everything[node] for node in block]
    assert as_lists(search(torch.tensor([3, 3]))) == [everything[3]] * 2


@pytest.mark.parametrize("pushes", ["scipy", "torch"])
@pytest.mark.parametrize("relation", [*SPARSE, *COSINES, PageRank()], ids=repr)
def test_no_nodes_have_no_lists(
    relation: Relation, pushes: str, request: pytest.FixtureRequest
) -> None:
    if pushes == "torch":
        request.getfixturevalue("_torch_pushes")
    lists = nearest(relation, make_view(300, 5), 0.9, 7)(torch.arange(0))
    assert as_lists(lists) == []
    assert not len(lists.node)


# Cuts of lists, their levels, equal rows and links, against plain Python and SciPy.

CPU = torch.device("cpu")


VALUES = np.array([0, 1e-45, TINY / 2, TINY, 0.1, 0.25, 0.25, np.float32(0.1) + 1e-8, 1, np.inf])


@st.composite
def some_lists(draw: st.DrawFn) -> tuple[sp.csr_array, np.ndarray]:
    """Sparse rows with many equal values, and the nodes they belong to."""
    rng = np.random.default_rng(draw(st.integers(0, 2**20)))
    height, width = int(rng.integers(0, 12)), int(rng.integers(1, 30))
    there = rng.random((height, width)) < rng.random()
    kept = np.nonzero(there)
    value = rng.choice(VALUES, len(kept[0])).astype(np.float32)
    matrix = sp.csr_array((value, kept[1], np.r_[0, there.sum(1).cumsum()]), shape=there.shape)
    return matrix, rng.integers(width, size=height)


@given(some_lists(), st.integers(1, 9), st.integers(0, 8))
def test_cuts_are_the_best_in_order(
    given_lists: tuple[sp.csr_array, np.ndarray], k: int, further: int
) -> None:
    matrix, nodes = given_lists
    top = TopK(k, max(k - further, 1))
    lists = SparseRows.from_scipy(matrix, CPU)
    found = topk_of_lists(lists, torch.from_numpy(nodes), top)
    pairs = zip(as_lists(lists), nodes.tolist(), strict=True)
    assert as_lists(found) == [best_of(row, node, top) for row, node in pairs]


@given(some_lists(), st.integers(1, 9))
def test_the_kth_largest(given_lists: tuple[sp.csr_array, np.ndarray], place: int) -> None:
    lists = SparseRows.from_scipy(given_lists[0], CPU)
    assert kth_largest(lists, place).tolist() == [kth_of(row, place) for row in as_lists(lists)]


@given(some_lists(), st.sampled_from([(0.5, 0.9), (0.3, 0.7, 0.95)]), st.integers(1, 9))
def test_levels_count_the_thresholds_that_are_reached(
    given_lists: tuple[sp.csr_array, np.ndarray], quantiles: tuple[float, ...], k: int
) -> None:
    matrix, nodes = given_lists
    num_nodes = matrix.shape[1]
    found = topk_of_lists(SparseRows.from_scipy(matrix, CPU), torch.from_numpy(nodes), TopK(k, k))
    expected = []
    for row in as_lists(found):
        ranks = [max(rank_from_top(q, num_nodes - 1), 1) for q in quantiles[1:]]
        least = [max(kth_of(row, min(rank, k)), TINY) for rank in ranks]
        expected += [1 + sum(value >= each for each in least) for _, value in row]
    assert list_levels(found, quantiles, k, num_nodes).tolist() == expected


@given(some_lists(), st.lists(st.integers(0, 12), max_size=3))
def test_blocks_are_joined_and_taken_apart(
    given_lists: tuple[sp.csr_array, np.ndarray], cuts: list[int]
) -> None:
    matrix, _ = given_lists
    places = np.sort(np.minimum(cuts, matrix.shape[0]).astype(int))
    whole = SparseRows.from_scipy(matrix, CPU)
    blocks = [SparseRows.from_scipy(sp.csr_array(part), CPU) for part in _cut(matrix, places)]
    joined = SparseRows.joined(blocks)
    assert joined.num_rows == whole.num_rows
    assert as_lists(joined) == as_lists(whole)
    width = matrix.shape[1]
    key = SparseRows.from_keys(whole.key(width), whole.value, whole.num_rows, width)
    assert as_lists(key) == as_lists(whole)
    order = torch.randperm(len(whole.row), generator=torch.Generator().manual_seed(0))
    shuffled = whole.key(width)[order], whole.values[order], whole.num_rows, width
    assert as_lists(SparseRows.from_unsorted_keys(*shuffled)) == as_lists(whole)
    assert np.array_equal(whole.matrix(width).toarray(), matrix.toarray())


def _cut(matrix: sp.csr_array, places: np.ndarray) -> list[sp.csr_array]:
    ends = [0, *places.tolist(), matrix.shape[0]]
    return [matrix[first:end] for first, end in itertools.pairwise(ends)]


@pytest.mark.parametrize("count", [0, 1, 500])
@pytest.mark.parametrize("columns", [1, 16, 33])
@pytest.mark.parametrize("unlucky", [False, True])
def test_groups_are_the_rows_with_equal_bits(
    count: int, columns: int, unlucky: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(columns)
    values = rng.choice([0.0, -0.0, 0.5, 1.0], p=[0.94, 0.02, 0.02, 0.02], size=(count, columns))
    rows = torch.from_numpy(values.astype(np.float32))
    if unlucky:  # different rows get the same number
        monkeypatch.setattr(cosine, "splitmix64", torch.zeros_like)
    groups = cosine.group_rows(rows)
    expected: dict[bytes, list[int]] = {}
    for node, row in enumerate(rows.numpy()):
        expected.setdefault(row.tobytes(), []).append(node)
    assert groups.members.tolist() == list(itertools.chain(*expected.values()))
    assert groups.start.diff().tolist() == [len(members) for members in expected.values()]
    assert [row.tobytes() for row in groups.rows.numpy()] == list(expected)
    assert groups.group[groups.members].tolist() == sorted(groups.group.tolist())


def test_numbers_of_rows_differ_where_a_bit_does() -> None:
    bits = torch.cat([torch.zeros(1, dtype=torch.int32), 2 ** torch.arange(31, dtype=torch.int32)])
    rows = torch.stack([bits.view(torch.float32).roll(1, 0), bits.view(torch.float32)], dim=1)
    kind = cosine.hash_rows(torch.cat([rows, rows.flip(1), rows]))
    assert kind is not None
    assert torch.equal(kind[:32], kind[64:])
    assert len(torch.unique(kind)) == 64


@given(some_lists(), st.integers(0, 2**20))
def test_links_hold_what_scipy_says(
    given_lists: tuple[sp.csr_array, np.ndarray], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    width = given_lists[0].shape[1]
    matrix = sp.csr_array((rng.random((width, width)) < 0.3).astype(np.float32))
    nodes = given_lists[1]
    row, partner = rng.integers(max(len(nodes), 1), size=50), rng.integers(width, size=50)
    row, partner = row[: 50 * len(nodes)], partner[: 50 * len(nodes)]
    asked = (torch.from_numpy(part) for part in (nodes, row, partner))
    held = CSRGraph.from_scipy(matrix, CPU).has_edges(*asked)
    assert held.tolist() == (matrix.toarray()[nodes[row], partner] > 0).tolist()
