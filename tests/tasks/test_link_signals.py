"""The chance of a link as a weighted sum of signals."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from xtcl.config import EncoderConfig, EnsembleConfig, FitConfig
from xtcl.errors import DataError
from xtcl.graph.datasets.synthetic import block_model
from xtcl.graph.graph import Graph
from xtcl.graph.splits import link_split
from xtcl.nn.ensemble import EncoderEnsemble
from xtcl.relations.registry import make_relation
from xtcl.relations.view import TrainingView
from xtcl.tasks import link_head as module
from xtcl.tasks.fit import FitOptions, fit_sampler, fit_task
from xtcl.tasks.link_head import (
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
from xtcl.tasks.training_data import TrainingData, training_data

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
