"""Pair labels against asking for all pairs, and the folds of cross-fitting."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from strategies import make_graph, make_view, views

from xtcl.errors import DataError, UsageError
from xtcl.relations.view import TrainingView
from xtcl.sampling import folds as crossfit
from xtcl.sampling import folds as folds_module
from xtcl.sampling.folds import (
    Fold,
    LabelledPairs,
    PairLabels,
    label_folds,
    label_given_pairs,
    label_pairs_by_class,
    label_pairs_by_indicator,
    label_pairs_by_link,
    link_folds,
)

COUNT = 12


def check(
    pair_labels: PairLabels, alike: np.ndarray, counts: np.ndarray, queries: np.ndarray
) -> None:
    """`pair_labels` gives the entries of the matrices [V, V], and the right totals."""
    listed = np.random.default_rng(0).random(alike.shape) < 0.3
    listed[:, ~counts.any(axis=0)] = False  # nodes that are no candidates
    row, node = np.nonzero(listed[queries])
    said = asked(pair_labels, queries, row, node)
    counted = said.counted.numpy()
    np.testing.assert_array_equal(said.alike[counted], alike[queries[row], node][counted])
    np.testing.assert_array_equal(counted, counts[queries[row], node])
    matches = (alike & counts)[queries].sum(axis=1)
    expected = np.stack([counts[queries].sum(axis=1) - matches, matches], axis=1)
    np.testing.assert_array_equal(said.totals, expected)


def asked(pair_labels: PairLabels, *arrays: np.ndarray) -> LabelledPairs:
    return pair_labels(torch.device("cpu"))(*(torch.from_numpy(array) for array in arrays))


nodes = st.lists(st.integers(0, COUNT - 1), min_size=1, unique=True).map(np.array)


@given(
    st.lists(st.integers(0, 3), min_size=COUNT, max_size=COUNT), nodes, nodes, st.integers(1, 40)
)
def test_classes_and_functions(
    labels: list[int], candidates: np.ndarray, queries: np.ndarray, at_once: int
) -> None:
    classes = np.array(labels)
    alike = classes[:, None] == classes
    counts = np.isin(np.arange(COUNT), candidates) & ~np.eye(COUNT, dtype=bool)
    check(label_pairs_by_class(classes, candidates), alike, counts, np.sort(queries))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(folds_module, "_PAIRS_PER_CALL", at_once)
        pair_labels = label_pairs_by_indicator(lambda u, v: alike[np.ix_(u, v)], candidates)
    check(pair_labels, alike, counts, np.sort(queries))


@given(st.lists(st.tuples(*[st.integers(0, COUNT - 1)] * 2, st.booleans())), nodes)
def test_links(links: list[tuple[int, int, bool]], queries: np.ndarray) -> None:
    hidden = {(min(u, v), max(u, v)): hide for u, v, hide in links if u != v}
    target, known = (
        TrainingView.adjacency_of(
            np.array([pair for pair, hide in hidden.items() if hide == wanted])
            .reshape(-1, 2)
            .T.astype(np.int64),
            COUNT,
        )
        for wanted in (True, False)
    )
    different = ~np.eye(COUNT, dtype=bool)
    alike, seen = target.toarray() > 0, known.toarray() > 0
    everyone = np.arange(COUNT)
    queries = np.sort(queries)
    check(label_pairs_by_link(target, queries, everyone, known), alike, different & ~seen, queries)
    check(label_pairs_by_link(target, queries, everyone), alike, different, queries)


@given(
    st.dictionaries(st.tuples(*[st.integers(0, COUNT - 1)] * 2), st.booleans(), min_size=1), nodes
)
def test_given_pairs(given_pairs: dict[tuple[int, int], bool], queries: np.ndarray) -> None:
    alike, counts = np.zeros((2, COUNT, COUNT), dtype=bool)
    for pair, answer in given_pairs.items():
        alike[pair], counts[pair] = answer, True
    keys = np.flatnonzero(counts)
    pair_labels = label_given_pairs(keys, alike.ravel()[keys], COUNT)
    check(pair_labels, alike, counts, np.sort(queries))


def test_many_labels_make_no_table_of_pairs() -> None:
    """A hundred thousand labelled nodes: 10^10 pairs, counted without listing them."""
    count = 100_000
    classes = np.arange(count) % 7
    nothing = np.zeros(0, dtype=np.int64)
    everyone = np.arange(count)
    said = asked(label_pairs_by_class(classes, everyone), everyone, nothing, nothing)
    sizes = np.bincount(classes)
    assert said.totals[:, 1].sum() == (sizes * (sizes - 1)).sum()
    assert said.totals.sum() == count * (count - 1)


def folds_of_labels(view: TrainingView, folds: int, seed: int = 0) -> list[Fold]:
    return label_folds(view, None, folds, np.random.default_rng(seed))


def links_of(view: TrainingView) -> set[tuple[int, int]]:
    """Links once each, with u < v."""
    rows, columns = view.adjacency.nonzero()
    return {(int(u), int(v)) for u, v in zip(rows, columns, strict=True) if u < v}


many = views(min_nodes=6, labels=["many", "some unknown", "single"])


@given(many, st.integers(2, 6))
def test_a_fold_of_labels_hides_its_own_and_counts_only_inside(
    view: TrainingView, folds: int
) -> None:
    labelled = set(np.flatnonzero(view.labels >= 0).tolist())
    assume(len(labelled) >= 2)
    found = folds_of_labels(view, folds)
    assert len(found) == min(folds, len(labelled) // 2)
    assert sorted(u for fold in found for u in fold.queries.tolist()) == sorted(labelled)
    for fold in found:
        part = fold.queries.tolist()
        assert len(part) >= 2
        assert fold.candidates.tolist() == part
        assert set(np.flatnonzero(fold.view.labels >= 0).tolist()) == labelled - set(part)
        kept = fold.view.labels >= 0
        np.testing.assert_array_equal(fold.view.labels[kept], view.labels[kept])
        assert fold.view.adjacency is view.adjacency
        alike, counted = fold.dense_labels(fold.queries)
        for a, u in enumerate(part):
            for b, v in enumerate(part):
                assert alike[a, b] == (view.labels[u] == view.labels[v])
                assert counted[a, b] == (u != v)


@given(many)
def test_no_folds_hide_nothing(view: TrainingView) -> None:
    labelled = np.flatnonzero(view.labels >= 0)
    assume(len(labelled) >= 2)
    (fold,) = folds_of_labels(view, 0)
    assert fold.view is view
    np.testing.assert_array_equal(fold.queries, labelled)
    np.testing.assert_array_equal(fold.candidates, labelled)


def test_every_fold_gets_its_share_of_every_class() -> None:
    view = make_view(200, 0, known=1.0)
    found = folds_of_labels(view, 5)
    for code in range(4):
        shares = [int((view.labels[fold.queries] == code).sum()) for fold in found]
        assert max(shares) - min(shares) <= 1


@given(views(min_nodes=3), st.integers(2, 6))
def test_folds_of_links_hide_each_link_once_and_count_what_is_left(
    view: TrainingView, folds: int
) -> None:
    links = links_of(view)
    assume(len(links) >= 2)
    found = link_folds(view, folds, np.random.default_rng(0))
    assert len(found) == min(folds, len(links))
    hidden = [links - links_of(fold.view) for fold in found]
    assert sorted(link for part in hidden for link in part) == sorted(links)
    for fold, part in zip(found, hidden, strict=True):
        visible = links_of(fold.view)
        assert visible | part == links
        assert fold.queries.tolist() == sorted({u for link in links for u in link})
        assert fold.candidates.tolist() == list(range(view.num_nodes))
        np.testing.assert_array_equal(fold.view.labels, view.labels)
        alike, counted = fold.dense_labels(fold.queries)
        for a, u in enumerate(fold.queries.tolist()):
            for v in range(view.num_nodes):
                pair = (min(u, v), max(u, v))
                assert alike[a, v] == (pair in part)
                assert counted[a, v] == (u != v and pair not in visible)


@given(views(min_nodes=3))
def test_no_folds_of_links_hide_nothing_and_count_all_pairs_of_linked_nodes(
    view: TrainingView,
) -> None:
    links = links_of(view)
    assume(len(links) >= 2)
    (fold,) = link_folds(view, 0, np.random.default_rng(0))
    linked = sorted({u for link in links for u in link})
    assert fold.view is view
    assert fold.queries.tolist() == fold.candidates.tolist() == linked
    alike, counted = fold.dense_labels(fold.queries)
    for a, u in enumerate(linked):
        for b, v in enumerate(linked):
            assert alike[a, b] == ((min(u, v), max(u, v)) in links)
            assert counted[a, b] == (u != v)


def test_no_folds_of_links_sample_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crossfit, "MAX_QUERIES", 10)
    view = make_view(60, 0)
    (fold,) = link_folds(view, 0, np.random.default_rng(0))
    assert set(fold.queries.tolist()) == {u for link in links_of(view) for u in link}


def test_many_nodes_are_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crossfit, "MAX_QUERIES", 10)
    view = make_view(60, 0)
    linked = {u for link in links_of(view) for u in link}
    for fold in link_folds(view, 3, np.random.default_rng(0)):
        assert len(fold.queries) == 10
        assert (np.diff(fold.queries) > 0).all()
        assert set(fold.queries.tolist()) <= linked


def test_folds_depend_on_the_generator_alone() -> None:
    view = make_view(60, 0, known=1.0)
    np.random.seed(3)  # noqa: NPY002
    before = np.random.get_state()[1].copy()  # type: ignore[index]  # noqa: NPY002
    first, again, other = (folds_of_labels(view, 4, seed) for seed in (7, 7, 8))
    assert [f.queries.tolist() for f in first] == [f.queries.tolist() for f in again]
    assert [f.queries.tolist() for f in first] != [f.queries.tolist() for f in other]
    ours, same, others = (link_folds(view, 4, np.random.default_rng(seed)) for seed in (7, 7, 8))
    assert [links_of(f.view) for f in ours] == [links_of(f.view) for f in same]
    assert [links_of(f.view) for f in ours] != [links_of(f.view) for f in others]
    after = np.random.get_state()[1]  # type: ignore[index]  # noqa: NPY002
    np.testing.assert_array_equal(before, after)


@pytest.mark.parametrize("known", [[], [3]])
def test_too_few_labels_are_refused(known: list[int]) -> None:
    view = TrainingView.of(make_graph(10, 0), known)
    with pytest.raises(DataError, match=rf"two labelled training nodes and got {len(known)}\."):
        folds_of_labels(view, 2)


@pytest.mark.parametrize("count", [2, 3])
def test_too_few_links_are_refused(count: int) -> None:
    view = make_view(count, 0, "path" if count == 2 else "empty")
    with pytest.raises(DataError, match=rf"two training links and got {3 - count}\."):
        link_folds(view, 2, np.random.default_rng(0))


@pytest.mark.parametrize("folds", [1, -1])
def test_one_fold_is_refused(folds: int) -> None:
    view = make_view(20, 0)
    with pytest.raises(UsageError, match=rf"crossfit={folds} must be 0 \(off\) or at least 2\.$"):
        folds_of_labels(view, folds)
    with pytest.raises(UsageError, match=rf"crossfit={folds} must be 0 \(off\) or at least 2\.$"):
        link_folds(view, folds, np.random.default_rng(0))
