"""ASP: its contrast against the dense formula, its graphs and views against dense matrices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from small_runs import Recorder
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from xtcl.errors import UsageError
from xtcl.graph.datasets.synthetic import block_model
from xtcl.graph.graph import Graph
from xtcl.lab.methods.asp import (
    ASP,
    ASP_SETTINGS,
    ASPSettings,
    LinearViews,
    ThinnedGraph,
    ViewPair,
    asp_contrast,
    is_binary,
    nearest_by_attributes,
)
from xtcl.nn.functional import normalize
from xtcl.progress import Progress
from xtcl.relations.sparse import quiet_sparse

CPU = torch.device("cpu")


SMALL = ASPSettings(width=16, neighbours=8, far_hops=4, epochs=60)


GRAPH = block_model(
    200, num_classes=3, num_attributes=30, mean_degree=10, homophily=0.95, attribute_signal=1.5
)


PAIRS = (ViewPair(0, 1), ViewPair(2, 3, 0.7), ViewPair(0, 2, 0.6))


def embedded(graph: Graph, settings: ASPSettings = SMALL, seed: int = 0) -> np.ndarray:
    return ASP(settings).embed(graph, seed=seed, device=CPU, progress=Progress())


def four_views(num_nodes: int, dtype: torch.dtype = torch.float64) -> Tensor:
    generator = torch.Generator().manual_seed(2)
    return torch.randn(4, num_nodes, 5, generator=generator, dtype=dtype).requires_grad_()


def one_contrast_by_loops(a: Tensor, b: Tensor, temperature: float) -> Tensor:
    """Every term of the formula by itself."""

    def alike(x: Tensor, y: Tensor) -> Tensor:
        return (torch.nn.functional.cosine_similarity(x, y, dim=0) / temperature).exp()

    terms = []
    for i in range(len(a)):
        others = [j for j in range(len(a)) if j != i]
        across = [alike(a[i], b[j]) for j in range(len(a))]
        within = [alike(view[i], view[j]) for view in (a, b) for j in others]
        terms.append(-(across[i] / torch.stack(across + within).sum()).log())
    return torch.stack(terms).mean()


def one_contrast_dense(a: Tensor, b: Tensor, temperature: float) -> Tensor:
    """The same with whole matrices."""
    a, b = normalize(a), normalize(b)
    across, first, second = ((x @ y.T / temperature).exp() for x, y in ((a, b), (a, a), (b, b)))
    total = across.sum(1) + first.sum(1) - first.diagonal() + second.sum(1) - second.diagonal()
    return (total.log() - across.diagonal().log()).mean()


def whole(one: Callable[[Tensor, Tensor, float], Tensor], views: Tensor, tau: float) -> Tensor:
    terms = [weight * one(views[a], views[b], tau) for a, b, weight in PAIRS]
    return torch.stack(terms).sum()


def in_blocks(views: Tensor, temperature: float, height: int | None = None) -> Tensor:
    units = torch.stack([normalize(view) for view in views])
    return asp_contrast(units, PAIRS, temperature, height=height)


def test_contrast_and_gradient_are_those_of_the_formula() -> None:
    views = four_views(7)
    value, expected = in_blocks(views, 0.5, height=3), whole(one_contrast_by_loops, views, 0.5)
    torch.testing.assert_close(value, expected)
    torch.testing.assert_close(*(torch.autograd.grad(loss, views)[0] for loss in (value, expected)))


@pytest.mark.parametrize("height", [1, 16, 50, 64, None])
@pytest.mark.parametrize("temperature", [0.2, 1.2])
def test_blocks_of_any_height_have_the_gradient_of_the_dense_formula(
    height: int | None, temperature: float
) -> None:
    views = four_views(50)
    value = in_blocks(views, temperature, height)
    expected = whole(one_contrast_dense, views, temperature)
    torch.testing.assert_close(value, expected)
    found, wanted = (torch.autograd.grad(3 * loss, views)[0] for loss in (value, expected))
    torch.testing.assert_close(found, wanted)


def test_single_precision_keeps_most_digits() -> None:
    views = four_views(300, torch.float32)
    exact = whole(one_contrast_dense, views.double(), 0.2)
    value = in_blocks(views, 0.2, height=32)
    torch.testing.assert_close(value.double(), exact, rtol=1e-5, atol=0)
    found, wanted = (torch.autograd.grad(loss, views)[0] for loss in (value, exact))
    torch.testing.assert_close(found, wanted, rtol=1e-3, atol=1e-7)


class Largest(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes the size of the largest tensor that any operation gives."""

    numbers = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> object:
        found = func(*args, **(kwargs or {}))
        for each in found if isinstance(found, (tuple, list)) else (found,):
            if isinstance(each, Tensor):
                self.numbers = max(self.numbers, each.numel())
        return found


def test_no_array_is_larger_than_a_block_forth_and_back() -> None:
    views = four_views(600)
    with Largest() as largest:  # type: ignore[no-untyped-call]
        torch.autograd.backward(in_blocks(views, 1.0, height=25))
    assert views.grad is not None
    assert largest.numbers == 25 * 600  # of 600 * 600; all views together have 4 * 600 * 5


def dense_smoother(adjacency: np.ndarray) -> np.ndarray:
    looped = adjacency + np.eye(len(adjacency))
    root = looped.sum(axis=1) ** -0.5
    return np.asarray(root[:, None] * looped * root)


ONE_WAY = torch.tensor([[0, 0, 1, 2, 3, 3], [1, 2, 0, 3, 1, 0]])


def test_the_whole_graph_is_normalised_with_loops() -> None:
    edge_index = torch.from_numpy(np.array(GRAPH.edge_index))
    found = ThinnedGraph(edge_index, 200).whole().to_dense().numpy()
    np.testing.assert_allclose(found, dense_smoother(GRAPH.adjacency.toarray()), atol=1e-6)
    arcs = np.zeros((5, 5))
    arcs[tuple(ONE_WAY.numpy())] = 1
    found = ThinnedGraph(ONE_WAY, 5).whole().to_dense().numpy()
    np.testing.assert_allclose(found, dense_smoother(arcs), atol=1e-6)


def test_a_thinned_graph_loses_links_whole_and_is_normalised_anew() -> None:
    graph = ThinnedGraph(torch.from_numpy(np.array(GRAPH.edge_index)), 200)
    generator = torch.Generator().manual_seed(0)
    links = GRAPH.adjacency.toarray()
    lost = []
    for _ in range(20):
        found = graph.without(0.3, generator).to_dense().numpy()
        kept = (found > 0) & ~np.eye(200, dtype=bool)
        assert (kept == kept.T).all()
        assert (links[kept] == 1).all()
        np.testing.assert_allclose(found, dense_smoother(kept), atol=1e-6)
        lost.append(1 - kept.sum() / links.sum())
    assert len(set(lost)) > 10
    assert abs(np.mean(lost) - 0.3) < 0.02
    torch.testing.assert_close(graph.without(0.0, generator), graph.whole())


def test_views_are_those_of_dense_matrices_for_sparse_and_dense_attributes() -> None:
    torch.manual_seed(0)
    network = LinearViews(6, ASPSettings(width=3, far_hops=4)).double().eval()
    x = torch.rand(5, 6).double() * (torch.rand(5, 6) < 0.5)
    links, arcs = torch.rand(2, 5, 5).double()

    def layer(part: torch.nn.ParameterDict) -> Tensor:
        rows: Tensor = x @ part["weight"] + part["bias"]
        return rows

    far = torch.linalg.matrix_power(links, 4) @ layer(network.far)
    shared = links @ links @ layer(network.shared)
    expected = (
        links @ links @ layer(network.near),
        far,
        shared,
        shared + arcs @ layer(network.shared),
    )
    torch.testing.assert_close(network(x, links, arcs), expected)
    with quiet_sparse():
        sparse = [matrix.to_sparse_csr() for matrix in (x, links, arcs)]
    torch.testing.assert_close(network(*sparse), expected)


def test_every_view_has_its_own_dropout() -> None:
    torch.manual_seed(0)
    network = LinearViews(30, ASPSettings(width=4, far_hops=2))
    network.far.update(network.near)
    network.shared.update(network.near)
    x, still = torch.rand(10, 30), torch.eye(10)
    views = network(x, still, torch.zeros(10, 10))
    for first, second in ((0, 1), (0, 2), (2, 3)):
        assert not torch.allclose(views[first], views[second])
    views = network.eval()(x, still, torch.zeros(10, 10))
    for view in views[1:]:
        torch.testing.assert_close(view, views[0])


def test_the_embedding_is_taken_without_dropout_or_lost_links() -> None:
    """With a learning rate of 0 only draws could tell one number of epochs from another."""
    frozen = replace(SMALL, learning_rate=0.0, patience=50)
    short, long = (embedded(GRAPH, replace(frozen, epochs=epochs)) for epochs in (1, 7))
    np.testing.assert_array_equal(short, long)
    assert not np.allclose(short, embedded(GRAPH, replace(SMALL, epochs=7)))


def test_progress_counts_every_epoch() -> None:
    progress = Recorder()
    ASP(replace(SMALL, patience=60)).embed(GRAPH, seed=0, device=CPU, progress=progress)
    assert progress.stages == [("training ASP", 60, [1] * 60)]


def test_settings_follow_from_the_name_and_the_task() -> None:
    asp = ASP()
    named = replace(GRAPH, name="citeseer")
    assert ASP_SETTINGS.keys() == {"cora", "citeseer", "pubmed", "photo", "computers"}
    assert asp.settings_for(named, "nodes") == ASP_SETTINGS["citeseer"]
    assert asp.settings_for(named, "links") == replace(ASP_SETTINGS["citeseer"], temperature=0.2)
    links = replace(ASP_SETTINGS["cora"], temperature=0.2, neighbours=100)
    assert asp.settings_for(replace(GRAPH, name="cora"), "links") == links


def test_a_small_graph_of_one_s_own_has_fewer_neighbours_in_the_attribute_graph() -> None:
    assert ASP().settings_for(GRAPH, "nodes") == ASPSettings(words=False, neighbours=10)
    large, tiny = (Graph.from_arrays(np.ones((count, 1))) for count in (5000, 3))
    assert ASP().settings_for(large, "nodes") == ASPSettings(words=False)
    assert ASP().settings_for(tiny, "nodes") == ASPSettings(words=False, neighbours=1)


def test_what_cannot_be_done_is_refused() -> None:
    with pytest.raises(UsageError, match="epochs=0"):
        embedded(GRAPH, replace(SMALL, epochs=0))
    with pytest.raises(UsageError, match="number of neighbours"):
        embedded(GRAPH, replace(SMALL, neighbours=0))


# Nearest neighbours by attributes against a loop over all pairs.

RNG = np.random.default_rng(0)


WORDS = (RNG.random((40, 12)) < 0.3).astype(np.float32)


NUMBERS = RNG.normal(size=(40, 12)).astype(np.float32)


NUMBERS[7] = 0.0


def jaccard(x: np.ndarray, y: np.ndarray) -> float:
    either = np.count_nonzero((x > 0) | (y > 0))
    return np.count_nonzero((x > 0) & (y > 0)) / either if either else 0.0


def cosine(x: np.ndarray, y: np.ndarray) -> float:
    lengths = float(np.linalg.norm(x) * np.linalg.norm(y))
    return float(x.astype(np.float64) @ y) / lengths if lengths else 0.0


def neighbours(attributes: np.ndarray, count: int) -> list[tuple[int, int]]:
    """Sort all others by similarity, ties by number, and keep the first that are similar at all."""
    similarity = jaccard if is_binary(attributes) else cosine
    arcs = []
    for u in range(len(attributes)):
        scores = {
            v: similarity(attributes[u], attributes[v]) for v in range(len(attributes)) if v != u
        }
        nearest = sorted(scores, key=lambda v: (-scores[v], v))[:count]
        arcs += [(u, v) for v in sorted(nearest) if scores[v] > 0]
    return arcs


def found(
    attributes: np.ndarray | sp.csr_array,
    count: int,
    height: int | None = None,
    words: bool = True,
) -> list[tuple[int, ...]]:
    arcs = nearest_by_attributes(attributes, count, CPU, words=words, height=height)
    return [tuple(arc) for arc in arcs.T.tolist()]


@pytest.mark.parametrize("attributes", [WORDS, NUMBERS], ids=["words", "numbers"])
@pytest.mark.parametrize("count", [1, 5, 39, 100])
def test_arcs_are_those_of_a_loop_over_all_pairs(attributes: np.ndarray, count: int) -> None:
    assert found(attributes, count) == neighbours(attributes, count)


@pytest.mark.parametrize("height", [1, 7, 40])
def test_the_height_of_a_block_changes_nothing(height: int) -> None:
    assert found(WORDS, 5, height) == neighbours(WORDS, 5)
    assert found(NUMBERS, 5, height) == neighbours(NUMBERS, 5)


def test_sparse_attributes_give_the_same_arcs() -> None:
    assert found(sp.csr_array(WORDS), 5) == neighbours(WORDS, 5)
    assert found(sp.csr_array(NUMBERS), 5) == neighbours(NUMBERS, 5)


def test_binary_means_zeros_and_ones() -> None:
    assert is_binary(WORDS)
    assert is_binary(sp.csr_array(WORDS))
    assert not is_binary(2 * WORDS)
    assert not is_binary(-WORDS)
    assert not is_binary(sp.csr_array(NUMBERS))


def test_words_are_measured_by_jaccard_and_other_numbers_by_cosine() -> None:
    words = np.zeros((3, 8), np.float32)
    words[0, [0, 1]] = 1
    words[1, [0, 7]] = 1  # to node 0: Jaccard 1/3, cosine 0.50
    words[2, :7] = 1  # to node 0: Jaccard 2/7, cosine 0.53
    assert found(words, 1)[0] == (0, 1)
    assert found(2 * words, 1)[0] == (0, 2)
    assert found(words, 1, words=False)[0] == (0, 2)


def test_nodes_that_share_nothing_are_no_neighbours() -> None:
    apart = np.array([[1, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 0]], np.float32)
    assert found(apart, 3) == [(0, 1), (1, 0)]


def test_without_attributes_there_are_no_arcs() -> None:
    assert found(np.zeros((5, 0), np.float32), 3) == []
    assert found(np.ones((1, 4), np.float32), 3) == []


def test_no_neighbours_are_refused() -> None:
    with pytest.raises(UsageError, match="number of neighbours, 0, must be at least 1"):
        nearest_by_attributes(WORDS, 0, CPU)
