"""The diameter of the largest connected component."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.sparse as sp
import torch
from scipy.sparse.csgraph import breadth_first_order, connected_components
from torch import Tensor

from xtcl.distributed import World, world
from xtcl.relations.sparse import kernels_run_on, to_device

UNREACHED = -1


SEARCHES = 16
"""Searches of each rank, where there are several, before they exchange their bounds."""


SEARCHES_OF_A_GPU = 256
"""Searches that a GPU makes at once, in less time than a CPU takes for one."""


MOST_STEPS = 2**15
"""The kernel counts fewer steps than this."""


CPU = torch.device("cpu")


Bounds = tuple[np.ndarray, np.ndarray]
"""No eccentricity is below the first or above the second, each int64 [V]."""


def hop_distances(adjacency: sp.csr_array, source: int) -> np.ndarray:
    """Steps from `source` to every node, UNREACHED where there is no path.

    Without a copy of the matrix where it holds float64, as SciPy's search needs it.
    """
    order, before = breadth_first_order(adjacency, source)
    place = np.zeros(adjacency.shape[0], dtype=np.int64)
    place[order] = np.arange(len(order))
    parent = place[before[order[1:]]]  # of each node, its place in the order; ascending
    distance = np.full(adjacency.shape[0], UNREACHED, dtype=np.int64)
    first, end, step = 0, 1, 0
    while first < len(order):
        distance[order[first:end]] = step
        first, end, step = end, 1 + int(np.searchsorted(parent, end)), step + 1
    return distance


def largest_component_diameter(
    adjacency: sp.csr_array,
    searches: int | None = None,
    device: torch.device = CPU,
) -> int:
    """Exact diameter of the largest component; 1 where no component has two nodes.

    With `searches` it is the least proven upper bound after so many of them.

    A search from one node bounds the eccentricity of all others from both sides. Searching from
    the node with the highest upper bound and the one with the lowest lower bound in turn closes the
    gap after a few searches on most graphs: Takes and Kosters, "Determining the diameter of small
    world networks", CIKM 2011. Ranks, and a GPU, search from several nodes at a time.
    """
    _, component = connected_components(adjacency, directed=False)
    members = np.flatnonzero(component == np.argmax(np.bincount(component)))
    inside = sp.csr_array(adjacency[members][:, members].astype(np.float64))
    lower = np.zeros(len(members), dtype=np.int64)
    upper = np.full(len(members), len(members), dtype=np.int64)
    open_nodes = np.arange(len(members))
    take_highest = True
    left = len(members) if searches is None else searches
    ranks = world() if searches is None else World()  # a bound depends on the order of searches
    number = 1 if ranks.world_size == 1 else SEARCHES * ranks.world_size

    def hops(nodes: np.ndarray) -> Bounds:
        own = nodes[ranks.shares([len(nodes)])[0]]
        distances = np.array([hop_distances(inside, int(node)) for node in own], np.int64)
        return _bounds(ranks.gather(distances.reshape(-1, len(members))))

    search: Callable[[np.ndarray], Bounds] = hops
    gpu = searches is None and kernels_run_on(device)
    while left and len(open_nodes) and upper[open_nodes].max() > lower.max():
        left -= 1
        bounds = upper[open_nodes] if take_highest else -lower[open_nodes]
        take_highest = not take_highest
        found = search(open_nodes[_highest(bounds, number)])
        lower, upper = np.maximum(lower, found[0]), np.minimum(upper, found[1])
        open_nodes = open_nodes[lower[open_nodes] < upper[open_nodes]]
        max_distance = int(upper.max())  # how far apart two nodes can be
        if search is hops and gpu and max_distance < MOST_STEPS:
            search, number = _searches_of_a_gpu(inside, max_distance, device), SEARCHES_OF_A_GPU
    bound = upper[open_nodes].max() if len(open_nodes) else 0
    return max(int(lower.max()), int(bound), 1)


def _bounds(distances: np.ndarray) -> Bounds:
    """What searches from some nodes, [n, V], prove."""
    eccentricity = distances.max(axis=1, keepdims=True)
    lower = np.maximum(distances, eccentricity - distances).max(axis=0)
    return lower, (eccentricity + distances).min(axis=0)


def _searches_of_a_gpu(
    adjacency: sp.csr_array, max_distance: int, device: torch.device
) -> Callable[[np.ndarray], Bounds]:
    """Searches from SEARCHES_OF_A_GPU nodes at once; `max_distance` bounds all distances."""
    from xtcl.relations.triton_kernels import steps_within_reach_by_node

    links = to_device(adjacency, device)

    def search(sources: np.ndarray) -> Bounds:
        nodes = torch.from_numpy(np.resize(sources, SEARCHES_OF_A_GPU)).to(device)
        steps = steps_within_reach_by_node(
            links.crow_indices(), links.col_indices(), nodes, max_distance
        )
        return bounds_of_steps(steps, nodes, max_distance)

    return search


def bounds_of_steps(steps: Tensor, nodes: Tensor, max_distance: int) -> Bounds:
    """What searches from `nodes` prove; `steps` [V, n] as of `steps_within_reach_by_node`."""
    distance = max_distance + 1 - steps.int()  # a sum of two may exceed int16
    distance[nodes, torch.arange(len(nodes), device=nodes.device)] = 0
    eccentricity = distance.amax(dim=0)
    lower = torch.maximum(distance, eccentricity - distance).amax(dim=1)
    upper = (eccentricity + distance).amin(dim=1)
    return lower.cpu().numpy().astype(np.int64), upper.cpu().numpy().astype(np.int64)


def _highest(bounds: np.ndarray, number: int) -> np.ndarray:
    """Places of the `number` highest, of equals the first."""
    if number == 1:
        return np.array([np.argmax(bounds)])
    return np.argsort(-bounds, kind="stable")[:number]
