"""Kernels give what the plain versions give, to the bit.

On a GPU they run as they are; without one Triton's interpreter runs them where Triton is installed.
"""

from __future__ import annotations

import os
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.sparse.csgraph import shortest_path
from strategies import make_view, random_links

from xtcl.relations import diameter
from xtcl.relations.graph_distance import GraphDistance
from xtcl.relations.registry import resolve_relations
from xtcl.relations.rows import DenseRows
from xtcl.relations.sparse import to_device
from xtcl.relations.thresholds import PAPER_QUANTILES, levels_above, rank_from_top, thresholds
from xtcl.relations.topology import Topology
from xtcl.relations.view import TrainingView

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
if DEVICE.type == "cpu":
    os.environ["TRITON_INTERPRET"] = "1"  # read when Triton is imported
pytest.importorskip("triton")


def some_similarities(kind: str, num_nodes: int) -> torch.Tensor:
    noise = torch.Generator().manual_seed(num_nodes)
    dense = torch.rand(8, num_nodes, generator=noise)
    return {
        "dense": dense,
        "sparse": torch.where(dense > 0.9, dense, 0.0),
        "steps": (4 * dense).round() / 4,
        "nothing": torch.zeros_like(dense),
        "all one": torch.ones_like(dense),
        "below all normal numbers": 1e-39 * dense,
        "around the smallest normal number": 2.4e-38 * dense,
    }[kind]


@pytest.mark.parametrize("quantiles", [[0.99], [0.5], [0.0, 0.5, 0.9]])
@pytest.mark.parametrize("num_nodes", [2, 37, 300])
@pytest.mark.parametrize(
    "kind",
    [
        "dense",
        "sparse",
        "steps",
        "nothing",
        "all one",
        "below all normal numbers",
        "around the smallest normal number",
    ],
)
def test_levels_of_a_row_that_is_read_once(
    kind: str, num_nodes: int, quantiles: list[float]
) -> None:
    from xtcl.relations.triton_kernels import row_levels

    similarities = some_similarities(kind, num_nodes)
    nodes = torch.arange(8) % num_nodes
    expected = levels_above(similarities, nodes, thresholds(similarities, nodes, quantiles))
    ranks = [rank_from_top(q, num_nodes - 1) for q in quantiles]
    found = row_levels(similarities.to(DEVICE), nodes.to(DEVICE), ranks)
    assert torch.equal(found.cpu(), expected)
    turned = similarities.T.contiguous().to(DEVICE).T
    assert torch.equal(row_levels(turned, nodes.to(DEVICE), ranks).cpu(), expected)


@pytest.mark.parametrize("most", [1, 3, 9, 14])
@pytest.mark.parametrize("number", [1, 64, 110])
def test_steps_within_reach_are_counted_from_distances(number: int, most: int) -> None:
    from xtcl.relations.triton_kernels import steps_within_reach_by_node

    links = random_links(40, 0.04)
    nodes = np.arange(number) % 40  # some of them twice
    distance = shortest_path(links, unweighted=True)[nodes]
    expected = np.where(distance == 0, most, np.where(distance > most, 0, most - distance + 1))
    start, end = (
        torch.tensor(part, dtype=torch.int32, device=DEVICE)
        for part in (links.indptr, links.indices)
    )
    found = steps_within_reach_by_node(start, end, torch.tensor(nodes, device=DEVICE), most)
    assert np.array_equal(found.cpu().numpy(), expected.T)


@pytest.mark.parametrize("seed", range(4))
def test_searches_at_once_find_the_diameter_that_one_after_the_other_finds(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    links = random_links(60, 0.05, seed)
    expected = diameter.largest_component_diameter(links)
    monkeypatch.setattr(diameter, "kernels_run_on", lambda device: True)
    monkeypatch.setattr(diameter, "SEARCHES_OF_A_GPU", 32)
    assert diameter.largest_component_diameter(links, device=DEVICE) == expected


@pytest.mark.skipif(DEVICE.type == "cpu", reason="no CUDA device")
def test_distances_on_a_gpu_are_those_on_a_cpu() -> None:
    links = random_links(3000, 0.001)
    views = [
        TrainingView(
            attributes=np.zeros((3000, 0), dtype=np.float32),
            adjacency=links,
            labels=np.full(3000, -1),
            num_classes=0,
            device=torch.device(device),
        )
        for device in ("cpu", "cuda")
    ]
    nodes = torch.arange(0, 3000, 7)
    plain, quick = (GraphDistance().on(view)(nodes.to(view.device)) for view in views)
    assert torch.equal(plain, quick.cpu())


@pytest.mark.parametrize("density", [0.2, 0.6])
def test_a_sparse_product_is_added(density: float) -> None:
    from xtcl.relations.triton_kernels import LinkSegments, add_product_, sparse_product_kernel

    matrix = random_links(40, density)
    matrix.data[:] = np.random.default_rng(1).random(matrix.nnz)
    links = LinkSegments.of(matrix, DEVICE)
    noise = torch.Generator().manual_seed(0)
    values, target = (torch.rand(40, 37, generator=noise) for _ in range(2))
    nodes = torch.arange(37) % 5  # some of them twice
    expected = torch.from_numpy(matrix.toarray()) @ values
    torch.testing.assert_close(sparse_product_kernel(links, values.to(DEVICE)).cpu(), expected)
    found = target.clone().to(DEVICE)
    add_product_(found, links, values.to(DEVICE), nodes.to(DEVICE), 0.25, 0.5, 3.0)
    expected = 0.25 * target + 0.5 * expected
    expected[nodes, torch.arange(37)] += 3.0
    torch.testing.assert_close(found.cpu(), expected)


def test_rows_of_a_sparse_matrix_get_their_zeros() -> None:
    from xtcl.relations.triton_kernels import dense_rows_kernel

    matrix = random_links(70, 0.6)  # rows longer than what is written together
    matrix.data[:] = np.random.default_rng(1).random(matrix.nnz)
    nodes = torch.tensor([3, 69, 3, 0])
    found = dense_rows_kernel(to_device(matrix, DEVICE), nodes.to(DEVICE))
    assert np.array_equal(found.cpu().numpy(), matrix.toarray()[nodes.numpy()])


@pytest.mark.parametrize("density", [0.0, 0.03, 0.6])
def test_paths_of_two_steps_are_counted_where_they_end(density: float) -> None:
    from xtcl.relations.triton_kernels import count_paths

    links = random_links(70, density)
    nodes = torch.tensor([3, 69, 3, 0, 12])
    matrix = to_device(links, DEVICE)
    found = count_paths(matrix.crow_indices(), matrix.col_indices(), nodes.to(DEVICE))
    assert np.array_equal(found.cpu().numpy(), (links @ links).toarray()[nodes.numpy()])


@pytest.mark.parametrize("density", [0.01, 0.1, 0.6])
def test_mutual_information_takes_the_place_of_common_neighbours(density: float) -> None:
    from xtcl.relations.triton_kernels import inform_

    links = random_links(300, density)
    view = TrainingView(np.zeros((300, 0), dtype=np.float32), links, np.full(300, -1), 0)
    nodes = torch.arange(0, 300, 7)
    expected = Topology().on(view)(nodes)
    found = torch.from_numpy((links @ links).toarray()[nodes.numpy()]).to(DEVICE)
    kinds, kind, disjoint = (part.to(DEVICE) for part in Topology().without_overlap(view))
    count = torch.tensor(300.0, dtype=torch.float64, device=DEVICE)
    inform_(found, nodes.to(DEVICE), kind, kinds, disjoint, count)
    torch.testing.assert_close(found.cpu(), expected, rtol=1e-6, atol=0.0)
    assert torch.equal(found.cpu() > 0, expected > 0)


@pytest.mark.skipif(DEVICE.type == "cpu", reason="no CUDA device")
def test_rows_of_a_block_make_nobody_wait() -> None:
    """Not even to be told how many entries or paths there are."""
    view = replace(make_view(400, 0), device=DEVICE)
    rows = DenseRows(resolve_relations("paper"), view, PAPER_QUANTILES)
    nodes = torch.arange(0, 400, 3, device=DEVICE)
    expected = rows.pattern_codes(nodes)  # what all rows share is made now
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Synchronization debug mode")  # that it is a prototype
        try:
            torch.cuda.set_sync_debug_mode("error")
            found = rows.pattern_codes(nodes)
        finally:
            torch.cuda.set_sync_debug_mode("default")
    assert torch.equal(found, expected)
