"""Positives in the relation store: what names them, and what happens when they are damaged."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given
from hypothesis import strategies as st
from strategies import make_view, views
from torch import Tensor
from user_code import RELATION, user_module

from xtcl.config import SamplerConfig
from xtcl.errors import UsageError
from xtcl.relations.registry import resolve_relations
from xtcl.relations.relation import Relation, Rows
from xtcl.relations.rows import NO_NODE, DenseRows, all_nodes
from xtcl.relations.store import key
from xtcl.relations.store.key import name_of
from xtcl.relations.store.relation_store import RelationStore, StoreEntry
from xtcl.relations.view import LINKS, TrainingView
from xtcl.sampling.candidates import Shuffle
from xtcl.sampling.folds import label_folds
from xtcl.sampling.positives import Positives, describe_positives, find_positives
from xtcl.sampling.stumps import Stumps
from xtcl.sampling.xgsampler import XGSampler

QUANTILES = (0.5, 0.9)


@dataclass(frozen=True)
class Eighths(Relation):
    """Random similarities on a coarse grid: full of ties, and no rounding anywhere."""

    seed: int = 0
    name: ClassVar[str] = "eighths"
    title: ClassVar[str] = "Eighths"
    reads: ClassVar[frozenset[str]] = frozenset({LINKS})

    def prepare(self, view: TrainingView) -> Rows:
        rng = np.random.default_rng(self.seed)
        values = rng.integers(0, 9, size=(view.num_nodes, view.num_nodes)) / 8
        matrix = torch.tensor(values, dtype=torch.float32)

        def compute(nodes: Tensor) -> Tensor:
            return matrix[nodes]

        return compute


def stumps_for(relations: int, seed: int, *, coarse: bool = False) -> Stumps:
    """Random weights; coarse ones add up without rounding."""
    weights = np.random.default_rng(seed).normal(size=(relations, len(QUANTILES) + 1))
    return Stumps(-0.5, np.round(weights * 4) / 4 if coarse else weights)


def sorted_candidates(
    rows: DenseRows,
    stumps: Stumps,
    *,
    seed: int,
    tie_break: Relation | None = None,
    exclude: sp.csr_array | None = None,
) -> list[list[tuple[float, int]]]:
    """All candidates of every node as (score, node), best first, by plain sorting."""
    everyone = all_nodes(rows.num_nodes)
    levels = np.stack([level.numpy() for _, level in rows(everyone)])
    place = Shuffle(rows.num_nodes, seed, torch.device("cpu"))(everyone).numpy()
    similarity = np.zeros_like(place)
    if tie_break is not None:
        similarity = tie_break.on(rows.view)(everyone).double().numpy()
    banned = np.zeros(place.shape) if exclude is None else exclude.toarray()
    result = []
    for u in range(rows.num_nodes):
        ranked = []
        for v in range(rows.num_nodes):
            if v == u or banned[u, v] or not levels[:, u, v].any():
                continue
            score = float(stumps.base)
            for relation in range(len(levels)):
                score += float(stumps.weights[relation, levels[relation, u, v]])
            ranked.append(
                (float(np.float32(score)), float(similarity[u, v]), float(place[u, v]), v)
            )
        result.append([(score, v) for score, _, _, v in sorted(ranked, reverse=True)])
    return result


def assert_equals(found: Positives, ranked: list[list[tuple[float, int]]], number: int) -> None:
    assert found.nodes.shape == found.scores.shape == (len(ranked), number)
    assert found.nodes.dtype == np.int64
    assert found.scores.dtype == np.float32
    for u, best in enumerate(ranked):
        missing = max(number - len(best), 0)
        assert found.nodes[u].tolist() == [v for _, v in best[:number]] + [NO_NODE] * missing
        expected = [score for score, _ in best[:number]] + [-np.inf] * missing
        assert found.scores[u].tolist() == expected


@given(
    view=views(),
    number=st.integers(1, 25),
    height=st.sampled_from([1, 3, 7, 64]),
    seed=st.integers(0, 5),
)
def test_equals_sorting_with_ties_by_chance(
    view: TrainingView, number: int, height: int, seed: int
) -> None:
    rows = DenseRows(resolve_relations("paper"), view, QUANTILES)
    stumps = stumps_for(9, seed)
    found = find_positives(rows, stumps, number, seed=seed, height=height)
    assert_equals(found, sorted_candidates(rows, stumps, seed=seed), number)


@pytest.mark.parametrize("count", [5, 40, 90])
@pytest.mark.parametrize("number", [1, 4, 20, 100])
@pytest.mark.parametrize("excluded", [0.0, 0.4, 1.0])
def test_equals_sorting_by_score_similarity_and_shuffle(
    count: int, number: int, excluded: float
) -> None:
    view = make_view(count, count)
    relations = [*resolve_relations(["link", "jaccard", "attribute-similarity"]), Eighths(1)]
    rows = DenseRows(relations, view, QUANTILES)
    stumps = stumps_for(4, count, coarse=True)
    tie_break = Eighths(2)
    exclude = sp.csr_array(np.random.default_rng(1).random((count, count)) < excluded)
    found = find_positives(
        rows, stumps, number, seed=3, height=7, tie_break=tie_break, exclude=exclude
    )
    ranked = sorted_candidates(rows, stumps, seed=3, tie_break=tie_break, exclude=exclude)
    assert_equals(found, ranked, number)


@pytest.mark.parametrize("tie_break", ["attribute-distribution", "pagerank", None])
@pytest.mark.parametrize("count", [9, 75])
def test_any_height_gives_the_same_positives(count: int, tie_break: str | None) -> None:
    view = make_view(count, count, attributes="signed")
    rows = DenseRows(resolve_relations("paper"), view, QUANTILES)
    breaker = resolve_relations(tie_break)[0] if tie_break else None
    exclude = view.adjacency

    def positives(height: int) -> Positives:
        return find_positives(
            rows,
            stumps_for(9, 0),
            6,
            seed=1,
            height=height,
            tie_break=breaker,
            exclude=exclude,
        )

    whole = positives(10 * count)
    for height in (1, 3, 7, 64, count):
        found = positives(height)
        np.testing.assert_array_equal(found.nodes, whole.nodes)
        np.testing.assert_array_equal(found.scores, whole.scores)


@given(views(), st.integers(1, 20))
def test_never_itself_never_twice_and_nobody_last(view: TrainingView, number: int) -> None:
    rows = DenseRows(resolve_relations("paper"), view, QUANTILES)
    found = find_positives(rows, stumps_for(9, 1), number, seed=0, height=64)
    assert (found.nodes != np.arange(view.num_nodes)[:, None]).all()
    np.testing.assert_array_equal(found.filled, found.nodes >= 0)
    np.testing.assert_array_equal(found.filled, np.isfinite(found.scores))
    for row, filled in zip(found.nodes, found.filled, strict=True):
        chosen = row[filled].tolist()
        assert len(set(chosen)) == len(chosen)
        assert (np.diff(filled.astype(int)) <= 0).all()
    falling = np.where(found.filled, found.scores, -1e30)
    assert (np.diff(falling, axis=1) <= 0).all()


def test_excluded_pairs_are_not_chosen_and_the_matrix_stays() -> None:
    view = make_view(40, 1)
    rows = DenseRows(resolve_relations(["link", "pagerank"]), view, QUANTILES)
    before = view.adjacency.toarray()
    found = find_positives(rows, stumps_for(2, 1), 5, seed=0, height=7, exclude=view.adjacency)
    assert found.filled.any()
    for u, row in enumerate(found.nodes):
        assert not before[u, row[row >= 0]].any()
    np.testing.assert_array_equal(view.adjacency.toarray(), before)


@pytest.mark.parametrize("cap", [None, 4, 39])
@pytest.mark.parametrize("hops", [1, 2])
def test_within_hops_only_pairs_at_most_so_many_links_apart_are_chosen(
    hops: int, cap: int | None
) -> None:
    """The best of the candidates nearby, as if all others were excluded; in both modes."""
    view = make_view(40, 1, known=0.8)
    folds = label_folds(view, None, 3, np.random.default_rng(0))
    sampler = XGSampler("paper", SamplerConfig((0.5,), cap=cap)).fit_folds(view, folds)
    A = view.adjacency.toarray() > 0
    near = (A | (A @ A) if hops == 2 else A) & ~np.eye(40, dtype=bool)
    far = sp.csr_array((~near).astype(np.float32))
    found, expected = sampler.positives(9, hops=hops), sampler.positives(9, exclude=far)
    np.testing.assert_array_equal(found.nodes, expected.nodes)
    np.testing.assert_array_equal(found.scores, expected.scores)
    u, place = np.nonzero(found.filled)
    assert near[u, found.nodes[u, place]].all()
    assert (found.filled.sum(axis=1) <= np.minimum(near.sum(axis=1), 9)).all()
    with pytest.raises(UsageError, match="hops=0 must be a whole number of at least 1"):
        sampler.positives(9, hops=0)


def test_without_above_only_every_other_node_is_a_candidate() -> None:
    """All V - 1 nodes, the unlisted ones with the score of code 0, and never the node itself."""
    view = make_view(12, 3)
    rows = DenseRows(resolve_relations(["link"]), view, QUANTILES)
    weights = np.array([[0.5, 1.0, 2.0]])
    found = find_positives(rows, Stumps(-0.5, weights), 11, seed=0, height=5, above_only=False)
    assert found.filled.all()
    assert [sorted({*row.tolist(), u}) for u, row in enumerate(found.nodes)] == [
        list(range(12))
    ] * 12
    linked = view.adjacency.toarray()[np.arange(12)[:, None], found.nodes] > 0
    assert (found.scores[~linked] == 0.0).all()
    assert (found.scores[linked] > 0.0).all()


def test_a_node_that_is_paired_with_itself_is_no_positive_of_its_own() -> None:
    view = make_view(30, 0, known=0.9)
    folds = label_folds(view, None, 0, np.random.default_rng(0))
    settings = SamplerConfig((0.5,), self_pairs=True, positive_only=False, above_only=False)
    found = XGSampler("paper", settings).fit_folds(view, folds).positives(29)
    assert found.filled.all()
    assert not (found.nodes == np.arange(30)[:, None]).any()


def test_isolated_nodes_get_nobody_from_link_relations() -> None:
    view = make_view(20, 1, "isolated")
    rows = DenseRows(resolve_relations(["link", "graph-distance"]), view, QUANTILES)
    found = find_positives(rows, stumps_for(2, 1), 5, seed=0, height=7)
    alone = np.diff(view.adjacency.indptr) == 0
    assert alone.any()
    assert (found.nodes[alone] == NO_NODE).all()
    assert (~np.isin(found.nodes, np.flatnonzero(alone))).all()


@pytest.mark.parametrize("breaker", [None, Eighths(2)])
def test_another_seed_differs_only_within_ties(breaker: Relation | None) -> None:
    view = make_view(60, 3)
    rows = DenseRows([*resolve_relations(["link", "jaccard"]), Eighths(1)], view, QUANTILES)
    first, same, other = (
        find_positives(rows, stumps_for(3, 2), 8, seed=seed, height=64, tie_break=breaker)
        for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first.nodes, same.nodes)
    assert (first.nodes != other.nodes).any()
    np.testing.assert_array_equal(first.scores, other.scores)
    if breaker is not None:
        similarity = breaker.on(view)(all_nodes(60)).numpy()
        of_first = np.take_along_axis(similarity, first.nodes, axis=1)
        of_other = np.take_along_axis(similarity, other.nodes, axis=1)
        assert first.filled.all()
        np.testing.assert_array_equal(of_first, of_other)


def test_the_shuffle_is_another_order_for_every_node() -> None:
    place = Shuffle(50, seed=4, device=torch.device("cpu"))(all_nodes(50)).numpy()
    assert ((place >= 0) & (place < 1)).all()
    for row in place:
        np.testing.assert_array_equal(np.sort(np.round(row * 50)), np.arange(50))
    assert len({tuple(row) for row in place.tolist()}) > 20


def test_progress_adds_up_to_all_nodes() -> None:
    view = make_view(20, 0)
    done: list[int] = []
    rows = DenseRows(resolve_relations("link"), view, (0.9,))
    stumps = Stumps(0.0, np.array([[-1.0, 1.0]]))
    find_positives(rows, stumps, 2, seed=0, height=7, progress=done.append)
    assert done == [7, 7, 6]


def test_precision_counts_known_pairs_only() -> None:
    found = Positives(np.array([[1, 2], [0, NO_NODE], [3, 0], [0, 1]]), np.zeros((4, 2)))
    labels = np.array([0, 0, 1, -1])
    # 0: 1 matches, 2 does not; 1: 0 matches; 2: 3 is unknown, 0 does not; 3 is unknown.
    assert found.precision(labels) == 2 / 4


# Those likely enough
@given(
    margins=st.lists(
        st.lists(st.floats(-5, 5, width=32), min_size=3, max_size=3), min_size=1, max_size=4
    ),
    min_probability=st.floats(0, 1),
    empty=st.integers(0, 3),
)
def test_likely_keeps_who_has_the_chance_and_everybody_s_best(
    margins: list[list[float]], min_probability: float, empty: int
) -> None:
    scores = -np.sort(-np.array(margins, dtype=np.float32), axis=1)
    nodes = np.arange(scores.size).reshape(scores.shape)
    nodes[0, 3 - empty :], scores[0, 3 - empty :] = NO_NODE, -np.inf
    found = Positives(nodes, scores).likely(min_probability)
    for u, row in enumerate(scores):
        for place, score in enumerate(row):
            chance = 1 / (1 + np.exp(-np.float64(score))) if np.isfinite(score) else 0.0
            if abs(chance - min_probability) < 1e-6:
                continue  # either way
            kept = (place == 0 or chance >= min_probability) and nodes[u, place] != NO_NODE
            assert found.nodes[u, place] == (nodes[u, place] if kept else NO_NODE)
            assert found.scores[u, place] == (score if kept else -np.inf)
    assert found.scores.dtype == np.float32


def test_no_min_probability_keeps_all() -> None:
    best = Positives(np.array([[1, 2], [0, NO_NODE]]), np.array([[3.0, -40.0], [1.0, -np.inf]]))
    found = best.likely(0.0)
    np.testing.assert_array_equal(found.nodes, best.nodes)
    np.testing.assert_array_equal(found.scores, best.scores)


# Positives in the relation store: what names them, and what happens when they are damaged.


def fitted(
    store: RelationStore | None = None,
    seed: int = 0,
    sweeps: int = 4,
    cap: int | None = None,
    index_past: int | None = None,
    **switches: Any,
) -> XGSampler:
    view = make_view(50, 2)
    folds = label_folds(view, None, 3, np.random.default_rng(0))
    settings = SamplerConfig((0.7,), sweeps=sweeps, cap=cap, index_past=index_past, **switches)
    return XGSampler("paper", settings, random_state=seed, store=store).fit_folds(view, folds)


@pytest.mark.parametrize("cap", [None, 4])
def test_places_and_empty_places_come_back(cap: int | None, tmp_path: Path) -> None:
    """With more places than candidates some rows are not full, and scores do not rise."""
    store = RelationStore(tmp_path)
    expected = fitted(cap=cap).positives(49)
    assert not expected.filled.all()
    for _ in range(2):
        found = fitted(store, cap=cap).positives(49)
        np.testing.assert_array_equal(found.nodes, expected.nodes)
        np.testing.assert_array_equal(found.scores, expected.scores)
    assert [entry.parameters["number"] for entry in _kept(store)] == [49]


def test_whatever_decides_positives_is_in_their_name() -> None:
    first = fitted()
    links = first.view_.adjacency
    others = [
        (fitted(), 6, links),
        (fitted(), 5, None),
        (fitted(seed=1), 6, None),
        (fitted(sweeps=1), 6, None),
        (fitted(above_only=False), 6, None),
        (fitted(self_pairs=True), 6, None),
        (fitted(cap=49), 6, None),
        (fitted(cap=50), 6, None),  # the same positives, but who is to know
        (fitted(cap=49, index_past=1000), 6, None),
    ]
    known = {name_of(describe_positives(first, 6, None))}
    known |= {name_of(describe_positives(first, 6, None, hops)) for hops in (1, 2)}
    assert len(known) == 3
    assert name_of(describe_positives(fitted(), 6, None)) in known
    for sampler, number, unwanted in others:
        name = name_of(describe_positives(sampler, number, unwanted))
        assert name not in known
        known.add(name)


def test_code_of_relations_and_of_the_sampler_is_in_their_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(key, "code_digest", lambda *packages: " and ".join(packages))
    described = describe_positives(fitted(), 6, None)
    packages = "xtcl.relations", "xtcl.distributed", "xtcl.config", "xtcl.sampling"
    assert described["code"] == " and ".join(packages)


def test_code_of_a_users_relation_is_in_their_name(tmp_path: Path) -> None:
    view = make_view(50, 2)

    def named(source: str, folder: str) -> str:
        relation = user_module(tmp_path / folder, source).Own()
        folds = label_folds(view, None, 3, np.random.default_rng(0))
        sampler = XGSampler([relation], SamplerConfig((0.7,))).fit_folds(view, folds)
        return name_of(describe_positives(sampler, 6, None))

    first = named(RELATION, "first")
    assert named(RELATION, "again") == first
    same_rows = RELATION.replace("0.5)", "0.25 + 0.25)")
    assert named(same_rows, "changed") != first


def test_damaged_positives_are_set_aside_and_sought_again(tmp_path: Path) -> None:
    store = RelationStore(tmp_path)
    expected = fitted(store).positives(6)
    (kept,) = _kept(store)
    path = tmp_path / kept.file
    content = bytearray(path.read_bytes())
    content[20] ^= 255
    path.write_bytes(bytes(content))
    with pytest.warns(UserWarning, match="is damaged"):
        found = fitted(store).positives(6)
    np.testing.assert_array_equal(found.nodes, expected.nodes)
    assert path.with_name(path.name + ".damaged").exists()
    assert [entry.file for entry in _kept(store)] == [kept.file]


def _kept(store: RelationStore) -> list[StoreEntry]:
    return [entry for entry in store.listing() if entry.relation == "positives"]
