"""The likeliest missing links, against the scores of all pairs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from answer_runs import FIRST, fitted, run_folder
from scipy.special import expit
from small_runs import early_stopping_recipe, small_graph

from xtcl import XTCL, link_split
from xtcl.errors import UsageError
from xtcl.graph.graph import Graph
from xtcl.inference import links as module
from xtcl.inference.links import known_links, likely_links, score_pairs
from xtcl.inference.tables import names_of
from xtcl.tasks.link_head import LINK_SCORERS, LinkBlocks, SignalHead, fit_link_head


def by_the_book(model: XTCL, graph: Graph, k: int) -> dict[object, list[tuple[object, float]]]:
    """Score every pair on its own, leave out links of the whole graph, sort."""
    names, degree = names_of(graph), model.training_data_.graph.degrees
    best: dict[object, list[tuple[object, float]]] = {}
    for u in range(graph.num_nodes):
        others = [v for v in range(graph.num_nodes) if v != u and not graph.adjacency[u, v]]
        ends = [sorted((u, v), key=lambda node: (degree[node], node)) for v in others]
        chance = expit(model.decision_function(np.array(ends).T))
        first = sorted(zip(-chance, names[others].tolist(), strict=True))[:k]
        best[names[u].item()] = [(other, -score) for score, other in first]
    return best


@pytest.mark.slow
@pytest.mark.parametrize("block", [2**19, 500])
@pytest.mark.parametrize("signals", [True, False])
def test_they_are_the_best_of_all_pairs(
    signals: bool, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_PAIRS_PER_BLOCK", block)
    if signals:  # enough links to weigh relations and degrees beside the embedding
        graph = small_graph(100)
        model = XTCL("links", recipe=early_stopping_recipe(epochs=4), device="cpu")
        model.fit(graph, link_split(graph, 0.6))
        model.head_ = _weighing(model)
        model.fitted_task_ = replace(model.fitted_task_, head=model.head_)
    else:
        model = fitted("links")
        graph = model.graph_
    expected = by_the_book(model, graph, 3)
    found = likely_links(model, 3).rows()
    assert len(found) == sum(map(len, expected.values()))
    for node, others in expected.items():
        rows = [row for row in found if row["node"] == node]
        np.testing.assert_allclose([r["score"] for r in rows], [s for _, s in others], atol=2e-6)


def _weighing(model: XTCL) -> SignalHead:
    """A head that weighs all signals, whatever the fit found enough links for."""
    fit = model.fitted_task_.fitted
    rng = np.random.default_rng(0)
    links, others = (rng.integers(0, len(model.embedding_), (2, 150)) for _ in range(2))
    head = SignalHead.fit(fit, model.head_.scorer, links, others)
    assert len(head.names) > 1
    return head


def test_never_a_link_nor_itself_and_rows_fall() -> None:
    model = fitted("links")
    graph: Graph = model.graph_
    frame = model.likely_links(60).reset_index()
    place = {name: at for at, name in enumerate(names_of(graph).tolist())}
    u, v = (frame[side].map(place).to_numpy() for side in ("node", "other"))
    assert (u != v).all()
    assert not np.asarray(graph.adjacency[u, v]).any()  # of all links, those of the test too
    assert all((rows["score"].diff().dropna() <= 0).all() for _, rows in frame.groupby("node"))
    # A node that has fewer than 60 to choose from gets them all, each once.
    assert len(set(zip(u, v, strict=True))) == len(frame)
    assert len(frame) == sum(min(60, FIRST - 1 - d) for d in graph.degrees)


def test_a_loaded_run_knows_the_links_of_the_test() -> None:
    loaded = XTCL.load(run_folder("links"))
    model = fitted("links")
    assert known_links(loaded).shape[1] == model.graph_.num_edges
    assert loaded.likely_links(2).equals(model.likely_links(2))


def test_given_pairs_in_their_order_and_either_direction() -> None:
    model = fitted("links")
    pairs = np.array([[3, 9, 9], [9, 3, 0]])
    rows = score_pairs(model, pairs).rows()
    assert [(row["node"], row["other"]) for row in rows] == [
        ("=cmd()", "n9"),
        ("n9", "=cmd()"),
        ("n9", "n0"),
    ]
    assert rows[0]["score"] == rows[1]["score"]
    assert score_pairs(model, np.zeros((2, 0), np.int64)).rows() == []
    with pytest.raises(UsageError, match="'n4' is paired with itself"):
        score_pairs(model, np.array([[3, 4], [9, 4]]))
    linked = model.graph_.edges[:, :4]
    assert all(row["linked"] for row in score_pairs(model, linked).rows())


@pytest.mark.parametrize("kind", LINK_SCORERS)
def test_blocks_score_as_pairs_do(kind: str) -> None:
    fit = fitted("links").fitted_task_.fitted
    rng = np.random.default_rng(1)
    pairs = [rng.integers(0, FIRST, (2, 40)) for _ in range(2)]
    head = SignalHead.of(fit_link_head(kind, fit.embedding, *pairs))
    found = LinkBlocks(head, fit).scores(torch.arange(5), torch.arange(5, 20))
    asked = np.stack([np.repeat(np.arange(5), 15), np.tile(np.arange(5, 20), 5)])
    np.testing.assert_allclose(found.ravel(), head.score(fit, asked), rtol=1e-5, atol=1e-6)


def test_a_model_for_nodes_says_what_to_do() -> None:
    with pytest.raises(UsageError, match="--task links --out ANOTHER"):
        fitted("nodes").likely_links()
    with pytest.raises(UsageError, match="k=0 must be at least 1"):
        fitted("links").likely_links(0)
