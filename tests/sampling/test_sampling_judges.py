"""Totals and answers of every judge, against asking for all pairs."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from xtcl.relations.view import TrainingView
from xtcl.sampling import folds as judges
from xtcl.sampling.folds import (
    LabelledPairs,
    PairLabels,
    label_pairs_by_class,
    label_pairs_by_indicator,
    label_pairs_by_link,
)

COUNT = 12


def check(judge: PairLabels, alike: np.ndarray, counts: np.ndarray, queries: np.ndarray) -> None:
    """`judge` says of some pairs what the matrices [V, V] do, and the right totals."""
    listed = np.random.default_rng(0).random(alike.shape) < 0.3
    listed[:, ~counts.any(axis=0)] = False  # nodes that are no candidates
    row, node = np.nonzero(listed[queries])
    said = asked(judge, queries, row, node)
    counted = said.counted.numpy()
    np.testing.assert_array_equal(said.alike[counted], alike[queries[row], node][counted])
    np.testing.assert_array_equal(counted, counts[queries[row], node])
    matches = (alike & counts)[queries].sum(axis=1)
    expected = np.stack([counts[queries].sum(axis=1) - matches, matches], axis=1)
    np.testing.assert_array_equal(said.totals, expected)


def asked(judge: PairLabels, *arrays: np.ndarray) -> LabelledPairs:
    return judge(torch.device("cpu"))(*(torch.from_numpy(array) for array in arrays))


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
        patch.setattr(judges, "_PAIRS_PER_CALL", at_once)
        judge = label_pairs_by_indicator(lambda u, v: alike[np.ix_(u, v)], candidates)
    check(judge, alike, counts, np.sort(queries))


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
