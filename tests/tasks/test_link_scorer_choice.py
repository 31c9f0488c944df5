"""The scorer of pairs is chosen by training links that a whole fit did not see."""

from __future__ import annotations

import numpy as np
import pytest

from xtcl.graph.datasets.synthetic import block_model
from xtcl.graph.graph import Graph
from xtcl.graph.splits import link_split
from xtcl.tasks.link_head import LINK_SCORERS, fit_link_head
from xtcl.tasks.link_prediction import HiddenLinks, choose_scorer, fit_chosen, hide_links
from xtcl.tasks.metrics import auc
from xtcl.tasks.training_data import TrainingData, training_data

GRAPH = block_model(80, num_classes=4)
SIDE = training_data(GRAPH, link_split(GRAPH))


def pair_set(pairs: np.ndarray) -> set[tuple[int, int]]:
    return {(int(u), int(v)) for u, v in pairs.T}


@pytest.mark.parametrize("share", [0.1, 0.3, 0.9])
def test_hidden_and_kept_links_are_the_training_links(share: float) -> None:
    links = hide_links(SIDE, share, seed=0)
    for part, (whole, kept, hidden) in {
        "links": (SIDE.graph.edges, links.kept[0], links.hidden[0]),
        "non-links": (SIDE.negatives, links.kept[1], links.hidden[1]),
    }.items():
        assert pair_set(kept) | pair_set(hidden) == pair_set(whole), part
        assert not pair_set(kept) & pair_set(hidden), part
        assert hidden.shape[1] == round(share * whole.shape[1]), part
    assert pair_set(links.graph.edges) == pair_set(links.kept[0])


def test_the_seed_hides_the_links() -> None:
    first, again, other = (pair_set(hide_links(SIDE, 0.1, s).hidden[0]) for s in (0, 0, 1))
    assert first == again
    assert first != other


def test_at_least_one_pair_is_on_either_side() -> None:
    few = TrainingData(
        Graph.from_arrays(np.eye(6), [[0, 1, 2], [1, 2, 3]]), np.array([[0, 0], [4, 5]])
    )
    for share in (0.0, 0.01, 0.99, 1.0):
        links = hide_links(few, share, seed=0)
        for pairs in (*links.kept, *links.hidden):
            assert pairs.shape[1] >= 1


def ranked(links: HiddenLinks, z: np.ndarray) -> dict[str, float]:
    heads = {k: fit_link_head(k, z, *links.kept, validation=links.hidden) for k in LINK_SCORERS}
    return {k: auc(*(head.score(z, side) for side in links.hidden)) for k, head in heads.items()}


def embedding_for(kind: str) -> np.ndarray:
    """Rows under which one kind of scorer does best."""
    rng = np.random.default_rng(0)
    assert GRAPH.labels is not None
    direction = np.eye(4)[GRAPH.labels] + 0.05 * rng.normal(size=(80, 4))
    if kind == "cosine":  # lengths mislead, and with one column there is nothing to weigh
        sign = np.where(GRAPH.labels % 2, 1.0, -1.0)[:, None]
        return np.asarray(sign * rng.lognormal(sigma=2.5, size=(80, 1)))
    if kind == "inner":  # all that matters is length: well-linked nodes are long
        degree = SIDE.graph.degrees[:, None] + 0.1
        return np.asarray(degree * np.ones((80, 4)) + 0.01 * rng.normal(size=(80, 4)))
    noise = rng.normal(size=(80, 6)) * 3  # only four of ten columns mean anything
    return np.hstack([direction, noise])


@pytest.mark.parametrize("kind", LINK_SCORERS)
def test_the_best_on_hidden_links_is_chosen(kind: str) -> None:
    links = hide_links(SIDE, 0.3, seed=0)
    z = embedding_for(kind)
    figures = ranked(links, z)
    chosen = choose_scorer(links, z, seed=0)
    assert figures[chosen.kind] == max(figures.values())
    assert chosen.kind == kind, figures


def test_ties_go_to_the_scorer_listed_first() -> None:
    links = hide_links(SIDE, 0.3, seed=0)
    assert choose_scorer(links, np.zeros((GRAPH.num_nodes, 4)), seed=0).kind == LINK_SCORERS[0]


def test_the_chosen_kind_and_c_are_fitted_on_all_training_links() -> None:
    links = hide_links(SIDE, 0.3, seed=0)
    z = embedding_for("hadamard")
    chosen = choose_scorer(links, z, seed=0)
    head = fit_chosen(chosen, SIDE, z, seed=0)
    assert (head.kind, head.C_) == (chosen.kind, chosen.C_)
    alone = fit_link_head(chosen.kind, z, SIDE.graph.edges, SIDE.negatives, Cs=[chosen.C_])
    np.testing.assert_array_equal(head.weight_, alone.weight_)
    assert not np.array_equal(head.weight_, chosen.weight_)
