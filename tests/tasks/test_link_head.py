"""The chance of a link as a weighted sum of signals."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from safetensors.numpy import load, save
from sklearn.linear_model import LogisticRegression

from xtcl.config import EncoderConfig, EnsembleConfig, FitConfig
from xtcl.errors import DataError, UsageError
from xtcl.graph.datasets.synthetic import block_model
from xtcl.graph.graph import Graph
from xtcl.graph.splits import link_split
from xtcl.nn.ensemble import EncoderEnsemble
from xtcl.relations.registry import make_relation
from xtcl.relations.view import TrainingView
from xtcl.tasks import link_head
from xtcl.tasks import link_head as module
from xtcl.tasks.fit import fit_task
from xtcl.tasks.fit_options import FitOptions
from xtcl.tasks.link_head import (
    LINK_SCORERS,
    MIN_HIDDEN_LINKS,
    LinkHead,
    SignalHead,
    fit_link_head,
    signal_names,
    signals,
)
from xtcl.tasks.link_prediction import HiddenLinks, LinkPrediction, hide_links
from xtcl.tasks.logistic import fit_logistic
from xtcl.tasks.metrics import auc
from xtcl.tasks.results import FittedEmbedding
from xtcl.tasks.sampled_positives import fit_sampler
from xtcl.tasks.training_data import TrainingData, training_data

Floats = NDArray[np.float64]


Pairs = NDArray[np.int64]


def probability(head: LinkHead, z: Floats, pairs: Any) -> Floats:
    """The chance of a link that a head's log-odds stand for."""
    factor, plus = head.log_odds_
    return np.asarray(1 / (1 + np.exp(-(factor * head.score(z, pairs) + plus))))


def communities(
    n: int = 60, d: int = 8, seed: int = 0
) -> tuple[Floats, tuple[Pairs, Pairs], tuple[Pairs, Pairs]]:
    """Rows of which half the columns say who is linked; pairs to train on and pairs to test."""
    rng = np.random.default_rng(seed)
    group = rng.integers(3, size=n)
    z = rng.normal(size=(n, d))
    z[:, : d // 2] += 2.0 * rng.normal(size=(3, d // 2))[group]
    pairs = np.stack(np.triu_indices(n, k=1))
    pairs = pairs[:, rng.permutation(pairs.shape[1])]
    linked = group[pairs[0]] == group[pairs[1]]
    links, others = pairs[:, linked], pairs[:, ~linked]
    return z, (links[:, :100], others[:, :120]), (links[:, 100:180], others[:, 120:200])


def unit(row: Floats) -> Floats:
    length = float(np.sqrt((row**2).sum()))
    return row / length if length else row


def score_by_loops(head: LinkHead, z: Floats, pairs: Pairs) -> list[float]:
    found = []
    for u, v in pairs.T:
        if head.kind == "inner":
            found.append(float(z[u] @ z[v]))
        elif head.kind == "cosine":
            found.append(float(unit(z[u]) @ unit(z[v])))
        else:
            found.append(float((unit(z[u]) * unit(z[v])) @ head.weight_ + head.bias_))
    return found


@pytest.mark.parametrize("kind", LINK_SCORERS)
def test_scores_are_the_formula(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    z, train, (pairs, _) = communities()
    z[pairs[0, 0]] = 0.0
    head = fit_link_head(kind, z, *train)
    whole = head.score(z, pairs)
    assert whole.dtype == np.float64
    np.testing.assert_allclose(whole, score_by_loops(head, z, pairs), rtol=1e-12, atol=1e-12)
    monkeypatch.setattr(link_head, "_PAIRS_BLOCK", 3 * z.shape[1])
    np.testing.assert_array_equal(head.score(z, pairs), whole)
    np.testing.assert_array_equal(head.score(z, pairs[::-1]), whole)
    assert head.score(z, np.empty((2, 0), dtype=int)).shape == (0,)


def test_hadamard_is_a_logistic_regression_on_products() -> None:
    z, (links, others), (test, _) = communities()
    head = fit_link_head("hadamard", z, links, others, Cs=[5.0])
    pairs = np.hstack([links, others])
    features = np.array([unit(z[u]) * unit(z[v]) for u, v in pairs.T])
    labels = np.repeat([1, 0], [links.shape[1], others.shape[1]])
    spread = features - features.mean(axis=0)
    scale = np.sqrt((spread**2).sum(axis=1).mean())
    # Two columns of weights under one penalty are one column at twice the C.
    oracle = LogisticRegression(C=10.0, solver="newton-cholesky", tol=1e-12).fit(
        spread / scale, labels
    )
    held = np.array([unit(z[u]) * unit(z[v]) for u, v in test.T])
    expected = oracle.predict_proba((held - features.mean(axis=0)) / scale)[:, 1]
    np.testing.assert_allclose(probability(head, z, test), expected, atol=1e-7)
    assert head.C_ == 5.0


@pytest.mark.parametrize("kind", LINK_SCORERS)
def test_probabilities_are_calibrated_and_rank_like_scores(kind: str) -> None:
    z, (links, others), (test, _) = communities()
    head = fit_link_head(kind, z, links, others)
    chance = probability(head, z, np.hstack([links, others]))
    # The unpenalised intercept makes the mean probability the share of links.
    assert chance.mean() == pytest.approx(100 / 220, abs=1e-6)
    order = np.argsort(head.score(z, test), kind="stable")
    assert (np.diff(probability(head, z, test)[order]) >= 0).all()


def test_validation_links_choose_the_c() -> None:
    z, train, valid = communities(seed=3)
    Cs = [0.01, 0.1, 1.0, 10.0, 1000.0]
    found = fit_link_head("hadamard", z, *train, Cs=Cs, validation=valid)
    aucs = []
    for C in Cs:
        head = fit_link_head("hadamard", z, *train, Cs=[C])
        aucs.append(auc(head.score(z, valid[0]), head.score(z, valid[1])))
    assert len(set(aucs)) > 1
    assert Cs[int(np.argmax(aucs))] == found.C_


@pytest.mark.parametrize("kind", LINK_SCORERS)
@pytest.mark.parametrize("value", [0.0, 0.3])
def test_an_embedding_that_says_nothing_gives_the_share_of_links(kind: str, value: float) -> None:
    _, (links, others), _ = communities()
    z = np.full((60, 3), value)
    head = fit_link_head(kind, z, links, others)
    np.testing.assert_allclose(probability(head, z, links), 100 / 220, rtol=1e-9)


@pytest.mark.parametrize("kind", LINK_SCORERS)
def test_one_pair_of_each_side_is_enough(kind: str) -> None:
    z = np.array([[1.0, 0.2], [0.9, 0.1], [-1.0, 0.3]])
    head = fit_link_head(kind, z, [[0], [1]], [[0], [2]])
    linked, apart = probability(head, z, [[0, 0], [1, 2]])
    assert linked > 0.5 > apart


def test_the_subsample_is_drawn_by_the_seed() -> None:
    z, (links, others), _ = communities()
    same = [fit_link_head("inner", z, links, others, max_pairs=40, seed=1) for _ in range(2)]
    other = fit_link_head("inner", z, links, others, max_pairs=40, seed=2)
    assert same[0].bias_ == same[1].bias_ != other.bias_
    chance = probability(same[0], z, np.hstack([links, others]))
    assert abs(chance.mean() - 0.5) < 0.15  # 20 of each side
    whole = fit_link_head("inner", z, links, others, max_pairs=240, seed=1)
    assert whole.bias_ == fit_link_head("inner", z, links, others, seed=9).bias_


@pytest.mark.parametrize("kind", LINK_SCORERS)
def test_a_head_survives_a_safetensors_file(kind: str) -> None:
    z, train, (pairs, _) = communities()
    head = fit_link_head(kind, z, *train)
    loaded = LinkHead.from_tensors(load(save(head.to_tensors())))
    assert loaded.kind == kind
    assert loaded.C_ == head.C_
    np.testing.assert_array_equal(probability(loaded, z, pairs), probability(head, z, pairs))
    arrays = head.to_tensors()
    arrays["strength"] = arrays.pop("C")  # its name in earlier versions
    assert LinkHead.from_tensors(load(save(arrays))).C_ == head.C_


def test_bad_data_are_named() -> None:
    z, (links, others), _ = communities()
    nobody = np.empty((2, 0), dtype=int)
    with pytest.raises(DataError, match="no links to fit"):
        fit_link_head("cosine", z, nobody, others)
    with pytest.raises(DataError, match="no non-links to fit"):
        fit_link_head("cosine", z, links, nobody)
    with pytest.raises(DataError, match=r"Pairs 1 name a node.*from 0 to 59"):
        fit_link_head("cosine", z, [[0, 1], [2, 60]], others)
    with pytest.raises(DataError, match=r"shape \(2, n\)"):
        fit_link_head("cosine", z, links.T, others)
    head = fit_link_head("hadamard", z, links, others)
    with pytest.raises(DataError, match="3 columns, but the head was fitted on 8"):
        head.score(z[:, :3], links)
    with pytest.raises(DataError, match="lacks 'bias'"):
        LinkHead.from_tensors({k: v for k, v in head.to_tensors().items() if k != "bias"})
    z[5] = np.inf
    with pytest.raises(DataError, match="not finite, in rows 5"):
        head.score(z, links)


def test_bad_parameters_are_named() -> None:
    z, train, _ = communities()
    with pytest.raises(UsageError, match="no link scorer named 'dot'; use one of cosine, inner"):
        fit_link_head("dot", z, *train)
    with pytest.raises(UsageError, match="max_pairs leaves 0 non-links"):
        fit_link_head("cosine", z, *train, max_pairs=1)


# The chance of a link as a weighted sum of signals.

RELATIONS = ["link", "pagerank", "jaccard", "attribute-similarity"]


GRAPH = block_model(240, num_classes=3, seed=1)


SIDE = training_data(GRAPH, link_split(GRAPH, seed=2))


def fitted_on(graph: Graph, embedding: np.ndarray) -> FittedEmbedding:
    """A fit with a planted embedding."""
    options = FitOptions(relations=RELATIONS)
    sampler = fit_sampler(graph, LinkPrediction(), FitConfig(crossfit=0), options)
    nobody = np.zeros((graph.num_nodes, 0), dtype=np.int64)
    rows = torch.from_numpy(embedding)
    return FittedEmbedding(
        sampler, nobody, EnsembleConfig((EncoderConfig(),)), EncoderEnsemble([], []), rows, ()
    )


def embedding_of(graph: Graph, seed: int = 0) -> np.ndarray:
    noise = np.random.default_rng(seed).normal(size=(graph.num_nodes, 5))
    return np.eye(5)[graph.labels if graph.labels is not None else 0] + 0.5 * noise


Z = embedding_of(GRAPH)


FITTED = fitted_on(SIDE.graph, Z)


SCORER = LinkHead("inner", np.array([0.7]), 0.2, 1.0)


def by_hand(u: int, v: int) -> list[float]:
    """The signals of one pair, one after the other."""
    linked = SIDE.graph.adjacency.toarray() > 0
    fewer, more = sorted([u, v], key=lambda node: linked[node].sum())
    view = TrainingView.of(SIDE.graph)
    related = [
        float(make_relation(name).on(view)(torch.tensor([fewer]))[0, more]) for name in RELATIONS
    ]
    cosine = Z[u] @ Z[v] / (np.linalg.norm(Z[u]) * np.linalg.norm(Z[v]))
    degrees = [math.log(1 + linked[node].sum()) for node in (fewer, more)]
    return [Z[u] @ Z[v], cosine, *degrees, *related, *(math.log(1 + 1e4 * s) for s in related)]


def test_signals_are_those_of_the_formula() -> None:
    degree = np.diff(SIDE.graph.adjacency.indptr)
    pairs = np.hstack([SIDE.graph.edges[:, :15], SIDE.negatives[:, :15], [[7], [90]]])
    unequal = degree[pairs[0]] != degree[pairs[1]]  # of equals, either may come first
    assert unequal.sum() > 20
    found = signals(FITTED, SCORER, pairs)
    assert found.shape == (pairs.shape[1], len(signal_names(FITTED)))
    for row, (u, v) in zip(found[unequal], pairs.T[unequal], strict=True):
        np.testing.assert_allclose(row, by_hand(u, v), rtol=1e-4, atol=1e-6)
    assert signal_names(FITTED)[4:8] == tuple(r.name for r in FITTED.sampler.relations_)


def test_a_pair_has_no_direction() -> None:
    pairs = np.hstack([SIDE.graph.edges[:, :40], SIDE.negatives[:, :40]])
    there, back = (signals(FITTED, SCORER, each) for each in (pairs, pairs[::-1]))
    np.testing.assert_allclose(there, back, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("height", [1, 7, 1000])
def test_blocks_and_company_change_nothing(height: int) -> None:
    pairs = np.hstack([SIDE.graph.edges[:, :30], SIDE.negatives[:, :30]])
    whole = FITTED.sampler.similarities(pairs)
    sampler = fit_sampler(
        SIDE.graph,
        LinkPrediction(),
        FitConfig(crossfit=0),
        FitOptions(relations=RELATIONS, block_rows=height),
    )
    np.testing.assert_array_equal(sampler.similarities(pairs), whole)
    np.testing.assert_array_equal(sampler.similarities(pairs[:, 11:12])[0], whole[11])
    assert sampler.similarities(pairs[:, :0]).shape == (0, len(RELATIONS))


def hidden() -> HiddenLinks:
    links = hide_links(SIDE, 0.4, 5)
    assert links.hidden[0].shape[1] >= MIN_HIDDEN_LINKS
    return links


def test_the_weights_are_a_logistic_regression_of_hidden_pairs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "fit_logistic", partial(fit_logistic, Cs=[3.0]))
    links = hidden()
    fitted = fitted_on(links.graph, Z)
    head = SignalHead.fit(fitted, SCORER, *links.hidden, seed=3)
    pairs = np.hstack(links.hidden)
    x = signals(fitted, SCORER, pairs)
    labels = np.repeat([1, 0], [side.shape[1] for side in links.hidden])
    scaled = (x - x.mean(axis=0)) / np.where(x.std(axis=0) > 0, x.std(axis=0), 1.0)
    # A row for each of two classes doubles C; a row's mean square length divides it.
    C = 2 * 3.0 / (scaled**2).sum(axis=1).mean()
    model = LogisticRegression(C=C, tol=1e-12, max_iter=10_000).fit(scaled, labels)
    expected = model.decision_function(scaled)
    np.testing.assert_allclose(head.score(fitted, pairs), expected, rtol=1e-4, atol=1e-4)


def test_signals_know_more_than_the_scorer_alone() -> None:
    links = hidden()
    fitted = fitted_on(links.graph, Z)
    scorer = fit_link_head("cosine", Z, *links.kept)
    test = link_split(GRAPH, seed=2)
    pairs = test.test, test.test_negatives
    alone, all_of_them = SignalHead.of(scorer), SignalHead.fit(fitted, scorer, *links.hidden)
    figures = [auc(*(h.score(FITTED, p) for p in pairs)) for h in (alone, all_of_them)]
    assert figures[1] > figures[0]
    np.testing.assert_allclose(
        figures[0], auc(*(scorer.score(Z, each) for each in pairs)), rtol=1e-12
    )


def test_few_hidden_links_leave_the_scorer_alone() -> None:
    links = hidden()
    few = links.hidden[0][:, : MIN_HIDDEN_LINKS - 1]
    head = SignalHead.fit(FITTED, SCORER, few, links.hidden[1])
    assert head.names == ("scorer",)
    np.testing.assert_allclose(
        head.score(FITTED, few), 0.7 * SCORER.score(Z, few) + 0.2, rtol=1e-12
    )


def test_another_scorer_keeps_the_weights() -> None:
    links = hidden()
    head = SignalHead.fit(FITTED, SCORER, *links.hidden)
    other = replace(SCORER, bias_=5.0)
    assert head.with_scorer(other) == replace(head, scorer=other)
    assert SignalHead.of(SCORER).with_scorer(other).bias_ == 5.0


def test_it_survives_a_file_and_names_what_is_missing() -> None:
    head = SignalHead.fit(FITTED, SCORER, *hidden().hidden)
    again = SignalHead.from_tensors(head.to_tensors())
    assert again.names == head.names
    pairs = SIDE.negatives[:, :9]
    np.testing.assert_array_equal(again.score(FITTED, pairs), head.score(FITTED, pairs))
    tensors = head.to_tensors()
    del tensors["names"]
    with pytest.raises(DataError, match="lacks 'names'"):
        SignalHead.from_tensors(tensors)


def test_signals_of_another_fit_are_refused() -> None:
    head = SignalHead.fit(FITTED, SCORER, *hidden().hidden)
    other = replace(head, names=(*head.names[:-1], "log unheard"))
    with pytest.raises(DataError, match=r"weighs the signals .* log unheard, but the fit has"):
        other.score(FITTED, SIDE.negatives)


@pytest.mark.slow
@pytest.mark.parametrize("wanted", [True, False])
def test_a_fit_weighs_signals_where_the_recipe_says_so(
    wanted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MIN_HIDDEN_LINKS", 5)
    recipe = replace(LinkPrediction().recipe("gcn"), signals=wanted, positives=5)
    short = recipe.map_encoders(lambda m: replace(m, training=replace(m.training, epochs=5)))
    side: TrainingData = SIDE
    result = fit_task(side, LinkPrediction(), short, FitOptions(relations=RELATIONS))
    assert (len(result.head.names) > 1) == wanted
    scores = result.answer.score(SIDE.negatives)  # type: ignore[union-attr]
    np.testing.assert_array_equal(scores, result.head.score(result.fitted, SIDE.negatives))
