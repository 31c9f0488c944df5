"""Second-order graphs against a triple loop, and the network against dense algebra."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from xtcl.graph.datasets.synthetic import block_model
from xtcl.lab.methods import dgcn_directed as directed
from xtcl.lab.methods.dgcn_directed import SecondOrder, TwoLayerDirectedGCN
from xtcl.nn.encoder import encoder_inputs

CPU = torch.device("cpu")
GRAPH = block_model(40, num_classes=3, num_attributes=12, mean_degree=5)


def one_way_links(num_nodes: int = 15, share: float = 0.15) -> np.ndarray:
    """A random directed graph: node 0 points nowhere, nobody points to 1, and 2 is alone."""
    dense = np.random.default_rng(0).random((num_nodes, num_nodes)) < share
    np.fill_diagonal(dense, False)
    dense[[0, 2]] = dense[:, [1, 2]] = False
    assert dense[:, 0].any()
    assert dense[1].any()
    return dense.astype(np.float64)


def plain_second_order(adjacency: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Pair by pair, third node by third node."""
    num_nodes = len(adjacency)
    inward, outward = np.zeros_like(adjacency), np.zeros_like(adjacency)
    for i in range(num_nodes):
        for j in range(num_nodes):
            for k in range(num_nodes):
                if adjacency[k, i] and adjacency[k, j]:
                    inward[i, j] += 1 / adjacency[k].sum()
                if adjacency[i, k] and adjacency[j, k]:
                    outward[i, j] += 1 / adjacency[:, k].sum()
    return inward, outward


def normalised(matrix: np.ndarray) -> np.ndarray:
    looped = matrix + np.eye(len(matrix))
    root = np.diag(looped.sum(axis=1) ** -0.5)
    return np.asarray(root @ looped @ root)


def test_links_of_one_direction_make_two_graphs() -> None:
    adjacency = one_way_links()
    edge_index = torch.from_numpy(np.array(np.nonzero(adjacency)))
    x = torch.eye(15, dtype=torch.float64)
    found = SecondOrder()(x, edge_index)
    assert not torch.allclose(*found)
    for smoothed, graph in zip(found, plain_second_order(adjacency), strict=True):
        np.testing.assert_allclose(smoothed, normalised(graph), atol=1e-12)


def test_links_of_both_directions_make_one() -> None:
    _, edge_index = encoder_inputs(GRAPH, CPU)
    inward, outward = SecondOrder()(torch.eye(40), edge_index)
    assert outward is inward
    for graph in plain_second_order(GRAPH.adjacency.toarray().astype(np.float64)):
        np.testing.assert_allclose(inward, normalised(graph), atol=1e-6)


def test_the_order_of_links_does_not_matter() -> None:
    edge_index = torch.from_numpy(np.array(np.nonzero(one_way_links())))
    mixed = edge_index[:, torch.randperm(edge_index.shape[1])]
    x = torch.eye(15)
    for found, expected in zip(SecondOrder()(x, mixed), SecondOrder()(x, edge_index), strict=True):
        torch.testing.assert_close(found, expected)


def test_gradients_go_through_the_transpose() -> None:
    edge_index = torch.from_numpy(np.array(np.nonzero(one_way_links())))
    smooth = SecondOrder()
    x = torch.randn(15, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda rows: smooth(rows, edge_index), (x,))


def test_matrices_are_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    x, edge_index = encoder_inputs(GRAPH, CPU)
    smooth = SecondOrder()
    first, _ = smooth(x, edge_index)
    monkeypatch.setattr(directed, "_adjacency", None)
    assert torch.equal(smooth(x, edge_index)[0], first)


def test_no_links_leave_rows_as_they_are() -> None:
    x = torch.randn(4, 2)
    for found in SecondOrder()(x, torch.zeros(2, 0, dtype=torch.int64)):
        torch.testing.assert_close(found, x)


def test_network_is_its_formula() -> None:
    x, edge_index = encoder_inputs(GRAPH, CPU)
    network = TwoLayerDirectedGCN(12, 8, 3, dropout=0.9).eval()
    with torch.no_grad():
        for bias in network.biases:
            bias.normal_()
    adjacency = GRAPH.adjacency.toarray().astype(np.float64)
    graphs = [normalised(graph) for graph in (adjacency, *plain_second_order(adjacency))]
    rows = x.numpy().astype(np.float64)
    for linear, bias in zip(network.layers, network.biases, strict=True):
        weight = linear.get_parameter("weight").detach().numpy()
        parts = [graph @ rows @ weight.T + bias.detach().numpy() for graph in graphs]
        rows = np.maximum(np.hstack(parts), 0.0)
    expected = rows @ network.head.weight.detach().numpy().T + network.head.bias.detach().numpy()
    np.testing.assert_allclose(network(x, edge_index).detach(), expected, atol=1e-5)
