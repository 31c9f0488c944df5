"""Chance, the same in every run, that decides between candidates who are equal in all else."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


class Shuffle:
    """A random order of the nodes, started at another place for every query node."""

    def __init__(self, num_nodes: int, seed: int, device: torch.device) -> None:
        rng = np.random.default_rng([seed, num_nodes])
        self.num_nodes = num_nodes
        self.place = torch.from_numpy(rng.permutation(num_nodes)).to(device)
        self.start = torch.from_numpy(rng.integers(num_nodes, size=num_nodes)).to(device)

    def __call__(self, nodes: Tensor) -> Tensor:
        """Place of every node in the order of each query, [b, V] in [0, 1)."""
        return self._turned(self.place, self.start[nodes, None])

    def pairs(self, u: Tensor, v: Tensor) -> Tensor:
        """Place of each v in the order of its u, [m] in [0, 1)."""
        return self._turned(self.place[v], self.start[u])

    def _turned(self, place: Tensor, start: Tensor) -> Tensor:
        return ((place + start) % self.num_nodes).double() / self.num_nodes


def tie_keys(chance: Tensor, similarity: Tensor | None) -> Tensor:
    """What ranks equals: the similarity of the relation that breaks ties, then chance."""
    if similarity is None:
        return chance
    # The shuffle decides between similarities that differ by less than 2^-26.
    return similarity.double() + chance * 2.0**-26
