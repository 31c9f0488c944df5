"""Kernels give what the plain versions give, to the bit.

On a GPU they run as they are; without one Triton's interpreter runs them where Triton is installed.
"""

from __future__ import annotations

import os

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from scipy.sparse.csgraph import shortest_path

from xtcl.relations import diameter
from xtcl.relations.graph_distance import GraphDistance
from xtcl.relations.thresholds import levels_above, rank_from_top, thresholds
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
    from xtcl.relations.kernels.row_levels import row_levels

    similarities = some_similarities(kind, num_nodes)
    nodes = torch.arange(8) % num_nodes
    expected = levels_above(similarities, nodes, thresholds(similarities, nodes, quantiles))
    ranks = [rank_from_top(q, num_nodes - 1) for q in quantiles]
    found = row_levels(similarities.to(DEVICE), nodes.to(DEVICE), ranks)
    assert torch.equal(found.cpu(), expected)


@pytest.mark.parametrize("most", [1, 3, 9, 14])
def test_steps_within_reach_are_counted_from_distances(most: int) -> None:
    from xtcl.relations.kernels.reach import steps_within_reach

    links = random_links(40, 0.04)
    nodes = np.arange(64) % 40  # some of them twice
    distance = shortest_path(links, unweighted=True)[nodes]
    expected = np.where(distance == 0, most, np.where(distance > most, 0, most - distance + 1))
    start, end = (
        torch.tensor(part, dtype=torch.int32, device=DEVICE)
        for part in (links.indptr, links.indices)
    )
    found = steps_within_reach(start, end, torch.tensor(nodes, device=DEVICE), most)
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


def random_links(num_nodes: int, density: float, seed: int = 0) -> sp.csr_array:
    one_way = np.random.default_rng(seed).random((num_nodes, num_nodes)) < density
    return sp.csr_array(np.triu(one_way | one_way.T, 1) | np.tril(one_way | one_way.T, -1)).astype(
        np.float32
    )


@pytest.mark.parametrize("density", [0.2, 0.6])
def test_a_sparse_product_is_added(density: float) -> None:
    from xtcl.relations.kernels.product import Links, add_product_, product

    matrix = random_links(40, density)
    matrix.data[:] = np.random.default_rng(1).random(matrix.nnz)
    links = Links.of(matrix, DEVICE)
    noise = torch.Generator().manual_seed(0)
    values, target = (torch.rand(40, 37, generator=noise) for _ in range(2))
    nodes = torch.arange(37) % 5  # some of them twice
    expected = torch.from_numpy(matrix.toarray()) @ values
    torch.testing.assert_close(product(links, values.to(DEVICE)).cpu(), expected)
    found = target.clone().to(DEVICE)
    add_product_(found, links, values.to(DEVICE), nodes.to(DEVICE), 0.25, 0.5, 3.0)
    expected = 0.25 * target + 0.5 * expected
    expected[nodes, torch.arange(37)] += 3.0
    torch.testing.assert_close(found.cpu(), expected)
