"""Nodes whose factors are equal, taken together: they are equally similar to every other node."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor


class Groups(NamedTuple):
    """Groups in the order of their first nodes; the nodes of a group in their own order."""

    rows: Tensor  # float32 [G, D]
    group: np.ndarray  # int64 [V], of every node
    start: np.ndarray  # int64 [G + 1]
    members: np.ndarray  # int64 [V]


def grouped(rows: Tensor) -> Groups:
    """Group equal rows [V, D]. Cost: a sort of V rows."""
    table = np.ascontiguousarray(rows.cpu().numpy())
    whole = table.view(np.dtype((np.void, table.itemsize * table.shape[1]))).ravel()
    _, first, group = np.unique(whole, return_index=True, return_inverse=True)
    order = np.argsort(first)
    group = np.argsort(order)[group]
    start = np.concatenate([[0], np.cumsum(np.bincount(group))])
    members = np.argsort(group, kind="stable")
    return Groups(rows[torch.from_numpy(first[order]).to(rows.device)], group, start, members)
