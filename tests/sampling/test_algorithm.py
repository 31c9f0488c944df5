"""The sampler against Algorithm 1 of the paper, written out in loops over pairs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from dense import all_rows
from hypothesis import assume, given
from hypothesis import strategies as st
from strategies import make_view, views
from torch import Tensor

from xtcl.config import SamplerConfig
from xtcl.relations.attribute_label_distribution import AttributeLabelDistribution
from xtcl.relations.registry import forget_relation, register_relation, relation_names
from xtcl.relations.relation import Relation, Rows
from xtcl.relations.view import TrainingView
from xtcl.sampling.folds import label_folds, link_folds
from xtcl.sampling.xgsampler import XGSampler

Pair = tuple[int, int]
Levels = dict[Pair, int]


def close_degrees(view: TrainingView) -> Rows:
    """1 / (1 + |d_u - d_v|)."""
    degree = torch.from_numpy(np.diff(view.adjacency.indptr).astype(np.float32))

    def compute(nodes: Tensor) -> Tensor:
        return 1 / (1 + (degree[nodes, None] - degree).abs())

    return compute


@pytest.fixture(autouse=True, scope="module")
def own_relation() -> Iterator[None]:
    register_relation("close-degrees", close_degrees)
    yield
    forget_relation("close-degrees")


def same_class(view: TrainingView) -> np.ndarray:
    return np.asarray(view.labels[:, None] == view.labels)


def levels_of(
    relation: Relation,
    view: TrainingView,
    pairs: Sequence[Pair],
    quantiles: Sequence[float],
    *,
    positive_only: bool = True,
    self_pairs: bool = False,
) -> Levels:
    """How many of its row's quantiles each pair is above: s >= eta, and s > 0 if positive only.

    With self pairs the quantiles are those of the whole row.
    """
    s = all_rows(relation, view).tolist()
    eta: dict[int, list[Fraction]] = {}
    for u in {u for u, _ in pairs}:
        others = sorted(Fraction(x) for w, x in enumerate(s[u]) if w != u or self_pairs)
        eta[u] = []
        for q in quantiles:
            place = Fraction(str(q)) * (len(others) - 1)
            low, high = others[math.floor(place)], others[math.ceil(place)]
            eta[u].append(low + (place - math.floor(place)) * (high - low))
    least = 0.0 if positive_only else -1.0
    return {(u, v): sum(s[u][v] >= e and s[u][v] > least for e in eta[u]) for u, v in pairs}


def by_precision(levels: dict[str, Levels], y: dict[Pair, int], top: int) -> list[str]:
    """Relations by falling P(I_t = 1 | above); never above comes last, ties as listed."""

    def precision(name: str) -> float:
        matches = [y[pair] for pair, level in levels[name].items() if level == top]
        return sum(matches) / len(matches) if matches else -1.0

    return sorted(levels, key=precision, reverse=True)


def sigma(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def algorithm_1(
    above: dict[str, Levels], y: dict[Pair, int], ordered: Sequence[str], lam: float
) -> dict[str, tuple[float, float]]:
    """Algorithm 1, line by line, with equations (8) and (9)."""
    y_hat = dict.fromkeys(y, 0.0)
    w = {}
    for r in ordered:
        g, h = {}, {}
        for pair in y:
            g[pair] = sigma(y_hat[pair]) - y[pair]
            h[pair] = sigma(y_hat[pair]) * (1 - sigma(y_hat[pair]))
        below = [pair for pair in y if not above[r][pair]]
        over = [pair for pair in y if above[r][pair]]
        w0 = -sum(g[pair] for pair in below) / (sum(h[pair] for pair in below) + lam)
        w1 = -sum(g[pair] for pair in over) / (sum(h[pair] for pair in over) + lam)
        for pair in y:
            y_hat[pair] += w1 if above[r][pair] else w0
        w[r] = (w0, w1)
    return w


def believed(
    levels: dict[str, Levels], y: dict[Pair, int], top: int, pairs: int
) -> tuple[dict[str, Levels], dict[Pair, int]]:
    """With so many pairs more for each relation, above for it alone, every other one alike."""
    more = {name: dict(known) for name, known in levels.items()}
    answers = dict(y)
    for number, name in enumerate(levels):
        for count in range(pairs):
            pair = (-1 - number, count)
            answers[pair] = count % 2
            for other in levels:
                more[other][pair] = top if other == name else 0
    return more, answers


def boosted(
    levels: dict[str, Levels],
    y: dict[Pair, int],
    ordered: Sequence[str],
    *,
    leaves: int,
    base: float,
    sweeps: int,
    lam: float,
    backtracking: bool,
) -> dict[str, list[float]]:
    """The same with several leaves, another start, several sweeps, and no step uphill."""
    y_hat = dict.fromkeys(y, base)
    w = {r: [0.0] * leaves for r in ordered}
    for _ in range(sweeps):
        for r in ordered:
            down, scale = [0.0] * leaves, [lam] * leaves
            for pair in y:
                p = sigma(y_hat[pair])
                down[levels[r][pair]] += p - y[pair]
                scale[levels[r][pair]] += p * (1 - p)
            step = [-d / c if c > 0 else 0.0 for d, c in zip(down, scale, strict=True)]
            if backtracking:
                step = [downhill(s, i, levels[r], y, y_hat) for i, s in enumerate(step)]
            for pair in y:
                y_hat[pair] += step[levels[r][pair]]
            w[r] = [a + b for a, b in zip(w[r], step, strict=True)]
    return w


def downhill(
    step: float, leaf: int, levels: Levels, y: dict[Pair, int], y_hat: dict[Pair, float]
) -> float:
    """The step of a leaf, halved until the log-loss of its pairs is not above what it was."""

    def loss(more: float) -> float:
        inside = [pair for pair in y if levels[pair] == leaf]
        margins = [y_hat[pair] + more for pair in inside]
        softplus = [max(m, 0.0) + math.log1p(math.exp(-abs(m))) for m in margins]
        return math.fsum(a - y[p] * m for a, p, m in zip(softplus, inside, margins, strict=True))

    while loss(step) > loss(0.0) * (1 + 1e-12):
        step /= 2
    return step


def without_constants(
    w: dict[str, list[float]], levels: dict[str, Levels]
) -> dict[str, list[float]]:
    """Each relation's weights less their mean over all pairs; 0 for a level that no pair has."""
    centred = {}
    for r, weight in w.items():
        reached = list(levels[r].values())
        mean = sum(weight[level] for level in reached) / len(reached)
        centred[r] = [x - mean if level in reached else 0.0 for level, x in enumerate(weight)]
    return centred


def labelled_pairs(view: TrainingView, self_pairs: bool = False) -> dict[Pair, int]:
    """I_t of all pairs of training nodes: of V_L x V_L, or of those with u != v."""
    known = [int(u) for u in np.flatnonzero(view.labels >= 0)]
    pairs = [(u, v) for u in known for v in known if u != v or self_pairs]
    return {(u, v): int(view.labels[u] == view.labels[v]) for u, v in pairs}


def fitted(view: TrainingView, settings: SamplerConfig, *, crossfit: int = 0) -> XGSampler:
    alike = same_class(view)
    folds = label_folds(view, lambda u, v: alike[np.ix_(u, v)], crossfit, np.random.default_rng(0))
    return XGSampler(relation_names(), settings).fit_folds(view, folds)


@given(views(min_nodes=4, labels=["single", "some unknown", "many"]))
def test_paper_settings_are_algorithm_1(view: TrainingView) -> None:
    y = labelled_pairs(view)
    assume(y)
    sampler = fitted(view, SamplerConfig.paper())
    above = {r.name: levels_of(r, view, list(y), [0.99]) for r in sampler.relations_}
    ordered = by_precision(above, y, top=1)
    expected = algorithm_1(above, y, ordered, lam=1.0)
    assert [weight.relation for weight in sampler.relation_weights_] == ordered
    assert [weight.order for weight in sampler.relation_weights_] == [
        place + 1 for place in range(len(ordered))
    ]
    for weight in sampler.relation_weights_:
        matches = [y[pair] for pair in y if above[weight.relation][pair]]
        assert weight.support == len(matches)
        assert weight.precision == pytest.approx(np.mean(matches) if matches else 0, abs=1e-15)
        assert (weight.w0, weight.w1) == pytest.approx(expected[weight.relation], abs=1e-12)
        assert weight.weights == (weight.w0, weight.w1)
        assert weight.importance == max(abs(weight.w0), abs(weight.w1))


@pytest.mark.parametrize("seed", range(3))
def test_paper_settings_are_algorithm_1_on_a_larger_graph(seed: int) -> None:
    """Ten relations, one of them our own, where the 99th percentile lies inside the row."""
    view = make_view(110, seed, attributes="signed", known=0.3)
    y = labelled_pairs(view)
    sampler = fitted(view, SamplerConfig.paper())
    assert len(sampler.relations_) == 10
    above = {r.name: levels_of(r, view, list(y), [0.99]) for r in sampler.relations_}
    ordered = by_precision(above, y, top=1)
    expected = algorithm_1(above, y, ordered, lam=1.0)
    assert [weight.relation for weight in sampler.relation_weights_] == ordered
    for weight in sampler.relation_weights_:
        assert (weight.w0, weight.w1) == pytest.approx(expected[weight.relation], abs=1e-12)


@pytest.mark.parametrize("by_class", [True, False])
@pytest.mark.parametrize("positive_only", [True, False])
@pytest.mark.parametrize("self_pairs", [True, False])
@given(view=views(min_nodes=4, labels=["single", "some unknown", "many"]))
def test_the_switches_lead_to_what_is_printed(
    view: TrainingView, self_pairs: bool, positive_only: bool, by_class: bool
) -> None:
    """All of V_L x V_L, and above where s >= eta alone; alike by class or by a function."""
    y = labelled_pairs(view, self_pairs)
    assume(len(y) > 1)
    rule: dict[str, Any] = {"positive_only": positive_only, "self_pairs": self_pairs}
    settings = replace(SamplerConfig.paper(), **rule)
    alike = same_class(view)
    indicator = None if by_class else lambda u, v: alike[np.ix_(u, v)]
    folds = label_folds(view, indicator, 0, np.random.default_rng(0))
    sampler = XGSampler(relation_names(), settings, block_rows=5).fit_folds(view, folds)
    above = {r.name: levels_of(r, view, list(y), [0.99], **rule) for r in sampler.relations_}
    ordered = by_precision(above, y, top=1)
    expected = algorithm_1(above, y, ordered, lam=1.0)
    assert sampler.counts_.counts.sum() == len(y)
    assert [weight.relation for weight in sampler.relation_weights_] == ordered
    for weight in sampler.relation_weights_:
        assert (weight.w0, weight.w1) == pytest.approx(expected[weight.relation], abs=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_a_node_is_not_linked_to_itself_where_it_is_paired_with_itself(seed: int) -> None:
    view = make_view(20, seed, known=0.0)
    settings = replace(SamplerConfig.paper(), self_pairs=True)
    sampler = XGSampler("paper", settings)
    sampler.fit_folds(view, link_folds(view, 0, np.random.default_rng(0)))
    linked = [int(u) for u in range(20) if view.adjacency[[u]].nnz]
    A = view.adjacency.toarray()
    y = {(u, v): int(A[u, v]) for u in linked for v in linked}
    above = {
        r.name: levels_of(r, view, list(y), [0.99], self_pairs=True) for r in sampler.relations_
    }
    expected = algorithm_1(above, y, by_precision(above, y, top=1), lam=1.0)
    for weight in sampler.relation_weights_:
        assert (weight.w0, weight.w1) == pytest.approx(expected[weight.relation], abs=1e-12)


def test_the_literal_sampler_has_the_printed_relations() -> None:
    view = make_view(40, 0)
    relations = {r.name: r for r in fitted(view, SamplerConfig.paper()).relations_}
    assert relations["attribute-label-distribution"] == AttributeLabelDistribution(
        thresholded=False
    )
    own = fitted(view, SamplerConfig())
    assert AttributeLabelDistribution() in own.relations_


@given(
    view=views(min_nodes=4, labels=["single", "some unknown", "many"]),
    quantiles=st.sampled_from([(0.5,), (0.5, 0.9), (0.0, 0.25, 0.75, 0.99)]),
    base=st.sampled_from(["prior", 0.0, -1.5]),
    sweeps=st.sampled_from([1, 2, 7]),
    penalty=st.sampled_from([0.1, 1.0, 10.0]),
    prior_pairs=st.sampled_from([0, 2, 10]),
)
def test_general_settings_are_the_general_algorithm(
    view: TrainingView,
    quantiles: tuple[float, ...],
    base: float | str,
    sweeps: int,
    penalty: float,
    prior_pairs: int,
) -> None:
    y = labelled_pairs(view)
    assume(y)
    sampler = fitted(view, SamplerConfig(quantiles, base, sweeps, penalty, prior_pairs))
    levels = {r.name: levels_of(r, view, list(y), quantiles) for r in sampler.relations_}
    ordered = by_precision(levels, y, top=len(quantiles))
    matches = sum(y.values())
    prior = math.log((matches + 0.5) / (len(y) - matches + 0.5))
    start = prior if isinstance(base, str) else base
    levels, y = believed(levels, y, len(quantiles), prior_pairs)
    expected = boosted(
        levels,
        y,
        ordered,
        leaves=len(quantiles) + 1,
        base=start,
        sweeps=sweeps,
        lam=penalty,
        backtracking=isinstance(base, str),
    )
    if isinstance(base, str):
        moved = without_constants(expected, levels)
        pair = next(iter(y))
        total = start + sum(expected[r][levels[r][pair]] for r in ordered)
        rest = sum(moved[r][levels[r][pair]] for r in ordered)
        assert sampler.stumps_.base == pytest.approx(total - rest, abs=1e-9)
        expected = moved
    else:
        assert sampler.stumps_.base == pytest.approx(start, abs=1e-12)
    assert [weight.relation for weight in sampler.relation_weights_] == ordered
    for weight in sampler.relation_weights_:
        assert weight.weights == pytest.approx(expected[weight.relation], abs=1e-10)
        assert (weight.w0, weight.w1) == (weight.weights[0], weight.weights[-1])
        assert weight.importance == max(abs(w) for w in weight.weights)


@pytest.mark.parametrize("seed", range(3))
def test_links_without_crossfit_are_algorithm_1_on_links(seed: int) -> None:
    """V_L are the nodes with links, and I_t is the adjacency."""
    view = make_view(20, seed, known=0.0)
    sampler = XGSampler("paper", SamplerConfig.paper())
    sampler.fit_folds(view, link_folds(view, 0, np.random.default_rng(0)))
    linked = [int(u) for u in range(20) if view.adjacency[[u]].nnz]
    A = view.adjacency.toarray()
    y = {(u, v): int(A[u, v]) for u in linked for v in linked if u != v}
    above = {r.name: levels_of(r, view, list(y), [0.99]) for r in sampler.relations_}
    ordered = by_precision(above, y, top=1)
    expected = algorithm_1(above, y, ordered, lam=1.0)
    assert len(ordered) == 7
    assert [weight.relation for weight in sampler.relation_weights_] == ordered
    for weight in sampler.relation_weights_:
        assert (weight.w0, weight.w1) == pytest.approx(expected[weight.relation], abs=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_crossfit_labels_are_the_general_algorithm_on_the_folds(seed: int) -> None:
    """Levels from the view without the fold's labels, pairs from inside the fold."""
    view = make_view(40, seed, known=0.7)
    settings = SamplerConfig(quantiles=(0.8,), sweeps=5, prior_pairs=10)
    sampler = fitted(view, settings, crossfit=4)
    alike = same_class(view)
    folds = label_folds(view, lambda u, v: alike[np.ix_(u, v)], 4, np.random.default_rng(0))
    y: dict[Pair, int] = {}
    levels: dict[str, Levels] = {r.name: {} for r in sampler.relations_}
    for fold in folds:
        part = [int(u) for u in fold.queries]
        inside = {(u, v): int(alike[u, v]) for u in part for v in part if u != v}
        y |= inside
        for r in sampler.relations_:
            hidden = view.without_labels(np.array(part))
            levels[r.name] |= levels_of(r, hidden, list(inside), [0.8])
    ordered = by_precision(levels, y, top=1)
    prior = math.log((sum(y.values()) + 0.5) / (len(y) - sum(y.values()) + 0.5))
    levels, y = believed(levels, y, 1, settings.prior_pairs)
    expected = boosted(
        levels, y, ordered, leaves=2, base=prior, sweeps=5, lam=1.0, backtracking=True
    )
    expected = without_constants(expected, levels)
    assert [weight.relation for weight in sampler.relation_weights_] == ordered
    for weight in sampler.relation_weights_:
        assert weight.weights == pytest.approx(expected[weight.relation], abs=1e-10)
