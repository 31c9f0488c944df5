from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pattern_tables import count_patterns
from strategies import make_view, views

from xtcl.errors import UsageError
from xtcl.relations.registry import resolve_relations
from xtcl.relations.rows import DenseRows, all_nodes
from xtcl.relations.view import TrainingView
from xtcl.sampling import patterns as tally
from xtcl.sampling.folds import (
    Fold,
    LabelledPairs,
    label_folds,
    label_pairs_by_indicator,
    link_folds,
)
from xtcl.sampling.patterns import (
    PatternCounter,
    PatternCounts,
    check_code_fits,
    margin_table,
    pattern_keys,
)
from xtcl.sampling.stumps import Stumps

HEIGHTS = (1, 3, 7, 64)
CPU = torch.device("cpu")


def paper_rows(view: TrainingView, quantiles: tuple[float, ...]) -> DenseRows:
    return DenseRows(resolve_relations("paper"), view, quantiles)


def counted_one_by_one(fold: Fold, rows: DenseRows) -> Counter[tuple[int, bool]]:
    """Patterns of the pairs that count, by asking for one row at a time."""
    found: Counter[tuple[int, bool]] = Counter()
    for u in fold.queries:
        per_relation = [level[0].tolist() for _, level in rows(torch.tensor([int(u)]))]
        alike, counted = fold.dense_labels(np.array([u]))
        for place, v in enumerate(fold.candidates):
            if counted[0, place]:
                base = len(rows.quantiles) + 1
                code = sum(levels[v] * base**r for r, levels in enumerate(per_relation))
                found[code, bool(alike[0, place])] += 1
    return found


def as_counter(table: PatternCounts) -> Counter[tuple[int, bool]]:
    found = Counter(
        {
            (int(code), alike): int(table.counts[at, int(alike)])
            for at, code in enumerate(table.codes)
            for alike in (False, True)
        }
    )
    return +found


def folds_of(view: TrainingView, kind: str, crossfit: int) -> list[Fold]:
    rng = np.random.default_rng(1)
    if kind == "links":
        return link_folds(view, crossfit, rng)
    return label_folds(view, lambda u, v: view.labels[u][:, None] == view.labels[v], crossfit, rng)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["labels", "links"])
@pytest.mark.parametrize("crossfit", [0, 3])
@pytest.mark.parametrize("quantiles", [(0.99,), (0.5, 0.9)])
@pytest.mark.parametrize("count", [9, 30, 75])
def test_counts_equal_counting_one_by_one_at_any_height(
    kind: str, crossfit: int, quantiles: tuple[float, ...], count: int
) -> None:
    view = make_view(count, count, known=0.8)
    for fold in folds_of(view, kind, crossfit):
        rows = paper_rows(fold.view, quantiles)
        expected = counted_one_by_one(fold, rows)
        for height in (*HEIGHTS, count, 10 * count):
            table = count_patterns(fold, rows, height)
            assert as_counter(table) == expected
            assert table.codes.dtype == table.counts.dtype == np.int64
            assert (np.diff(table.codes) > 0).all()
            assert (table.counts >= 0).all()


@given(views(min_nodes=3, labels=["many", "single"]), st.sampled_from(HEIGHTS))
def test_heights_give_the_same_tables_on_every_kind_of_graph(
    view: TrainingView, height: int
) -> None:
    nodes = np.arange(view.num_nodes)

    pair_labels = label_pairs_by_indicator(
        lambda u, v: view.labels[u][:, None] == view.labels[v], nodes
    )
    fold = Fold(view, nodes, nodes, pair_labels)
    rows = paper_rows(view, (0.5, 0.99))
    table, whole = count_patterns(fold, rows, height), count_patterns(fold, rows, 10**6)
    np.testing.assert_array_equal(table.codes, whole.codes)
    np.testing.assert_array_equal(table.counts, whole.counts)
    assert whole.counts.sum() == view.num_nodes * (view.num_nodes - 1)


@pytest.mark.parametrize("share", [0.5, 1.0])
def test_candidates_may_come_in_any_order(share: float) -> None:
    view = make_view(20, 2)
    chosen = np.random.default_rng(0).permutation(20)[: int(20 * share)]
    pair_labels = label_pairs_by_indicator(lambda u, v: (u[:, None] + v) % 3 == 0, chosen)
    fold = Fold(view, np.arange(20), chosen, pair_labels)
    rows = paper_rows(view, (0.9,))
    assert as_counter(count_patterns(fold, rows, 7)) == counted_one_by_one(fold, rows)


def test_codes_have_one_digit_per_relation() -> None:
    view = make_view(30, 4)
    rows = paper_rows(view, (0.5, 0.9))
    codes = rows.pattern_codes(all_nodes(30))
    digits = PatternCounts(codes.numpy().ravel(), np.zeros((900, 2), dtype=np.int64)).levels(9, 2)
    for relation, (_, level) in enumerate(rows(all_nodes(30))):
        np.testing.assert_array_equal(digits[:, relation], level.numpy().ravel())


def test_many_relations_and_levels_keep_their_digits() -> None:
    """The largest code that is allowed, 4^12 - 1, survives the counting."""
    check_code_fits(12, 3)
    largest = 4**12 - 1
    yes = torch.tensor([True])
    zero = torch.zeros(1, dtype=torch.int64)
    answers = LabelledPairs(yes, yes, torch.tensor([[0, 1]]))
    counting = PatternCounter(largest + 1, 1, CPU)
    key = pattern_keys(torch.tensor([largest]), zero, answers, zero, largest + 1)
    counting.add(key, answers.totals, zero)
    table = counting.counts()
    assert table.codes.tolist() == [0, largest]
    assert table.counts.tolist() == [[0, 0], [0, 1]]
    assert table.levels(12, 3)[1].tolist() == [3] * 12


def test_the_table_holds_the_margin_of_every_pattern() -> None:
    rng = np.random.default_rng(0)
    stumps = Stumps(-0.7, rng.normal(size=(4, 3)))
    codes = np.arange(3**4)
    levels = PatternCounts(codes, np.zeros((81, 2), dtype=np.int64)).levels(4, 2)
    table = margin_table(stumps)
    assert table[0] == -np.inf
    np.testing.assert_array_equal(table[1:], stumps.margins(levels)[1:])


def test_too_many_patterns_are_refused() -> None:
    with pytest.raises(UsageError, match=r"13 relations with 3 quantiles .*\.$"):
        check_code_fits(13, 3)


pairs = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 4), st.booleans(), st.booleans()), max_size=30
)


@pytest.mark.parametrize("most", [0, 2**24])
@given(pairs, st.integers(0, 30))
def test_a_tally_is_that_of_a_counter(
    most: int, pairs: list[tuple[int, int, bool, bool]], cut: int
) -> None:
    """Pairs (group, code, I_t, whether it counts) in two blocks, in a table or sorted."""
    counted_pairs = (pair[:3] for pair in pairs if pair[3])
    expected = Counter((5 * group + code, alike) for group, code, alike in counted_pairs)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tally, "_MAX_TABLE", most)
        counting = PatternCounter(5, 3, CPU)
    for block in pairs[:cut], pairs[cut:]:
        group, code, alike, counted = np.array(block, dtype=np.int64).reshape(-1, 4).T
        totals = np.array(
            [np.bincount(alike[(group == each) & (counted == 1)], minlength=2) for each in range(3)]
        )
        row, listed = np.flatnonzero(code), (code > 0)  # every pair has a query of its own
        said, counts = (torch.from_numpy(part[listed] == 1) for part in (alike, counted))
        answers = LabelledPairs(said, counts, torch.from_numpy(totals))
        codes, rows, groups = (torch.from_numpy(part) for part in (code[listed], row, group))
        key = pattern_keys(codes, rows, answers, groups, 5)
        counting.add(key, answers.totals, torch.arange(3))
    assert as_counter(counting.counts()) == expected
