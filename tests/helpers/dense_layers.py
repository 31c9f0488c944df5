"""Smoothing and convolutions on dense matrices, from their formulas, as oracles."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor, nn

from xtcl.graph.graph import Graph

PATH = [[0, 1, 1, 2], [1, 0, 2, 1]]
"""0 - 1 - 2, in both directions."""


def links_of(graph: Graph) -> Tensor:
    """All links in both directions."""
    return torch.from_numpy(np.array(graph.edge_index))


def normal(*size: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    """Random numbers, the same for the same seed."""
    return torch.randn(*size, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def randomise(module: nn.Module, seed: int) -> None:
    """Numbers in all weights and running statistics that no initialisation would give."""
    for at, (name, value) in enumerate(module.state_dict().items()):
        if value.is_floating_point():
            drawn = normal(*value.shape, seed=seed + at, dtype=value.dtype)
            value.copy_(drawn.abs() + 0.1 if name.endswith("running_var") else drawn)


def dense_hat(edge_index: Tensor, count: int) -> np.ndarray:
    """D^{-1/2} (A + I) D^{-1/2}, entry by entry."""
    linked = set(map(tuple, edge_index.T.tolist())) | {(u, u) for u in range(count)}
    degree = [sum((u, v) in linked for v in range(count)) for u in range(count)]
    matrix = np.zeros((count, count))
    for u, v in linked:
        matrix[u, v] = (degree[u] * degree[v]) ** -0.5
    return matrix


def unit(rows: np.ndarray) -> np.ndarray:
    """Every row divided by its length, rows of zeros left as they are."""
    return np.array([row / (np.sqrt((row**2).sum()) or 1.0) for row in rows])


def dense_smoothing(
    x: np.ndarray, edge_index: Tensor, hops: int, restart: float = 0.0
) -> np.ndarray:
    """(1 - a)^k hat^k x + a sum_{i < k} (1 - a)^i hat^i x, a walk of i steps at a time."""
    hat = dense_hat(edge_index, len(x))
    walks = [(1 - restart) ** i * np.linalg.matrix_power(hat, i) @ x for i in range(hops + 1)]
    back = sum(walks[:hops], np.zeros_like(x))
    return np.asarray(walks[hops] + restart * back)


def dense_gcn(
    weights: Mapping[str, Tensor],
    x: np.ndarray,
    edge_index: Tensor,
    hops: int,
    restart: float = 0.0,
    *,
    batch_statistics: bool = False,
) -> np.ndarray:
    """The convolutional encoder without dropout, from its state_dict.

    With batch norm, its running statistics are used, or else those of the nodes themselves.
    """
    known = {name: value.numpy() for name, value in weights.items()}
    hat = dense_hat(edge_index, len(x))
    h = unit(dense_smoothing(x, edge_index, hops, restart)) @ known["linears.0.weight"].T
    layer = 1
    while f"linears.{layer}.weight" in known:
        between, linear = f"between.{layer - 1}", f"linears.{layer}"
        if f"{between}.0.running_mean" in known:
            mean, variance = (known[f"{between}.0.running_{name}"] for name in ("mean", "var"))
            if batch_statistics:
                mean, variance = h.mean(axis=0), ((h - h.mean(axis=0)) ** 2).mean(axis=0)
            h = (h - mean) / np.sqrt(variance + 1e-5)
            h = h * known[f"{between}.0.weight"] + known[f"{between}.0.bias"]
        h = np.where(h > 0, h, known[f"{between}.1.weight"] * h)
        h = hat @ h @ known[f"{linear}.weight"].T + known[f"{linear}.bias"]
        layer += 1
    return np.asarray(h)
