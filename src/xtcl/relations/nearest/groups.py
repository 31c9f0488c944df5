"""Nodes whose factors are equal, taken together: they are equally similar to every other node."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from xtcl.relations.nearest.on_device.equal_rows import kinds_by_number
from xtcl.relations.nearest.on_device.use import explores_on


class Groups(NamedTuple):
    """Groups in the order of their first nodes; the nodes of a group in their own order."""

    rows: Tensor  # float32 [G, D]
    group: Tensor  # int64 [V], of every node
    start: Tensor  # int64 [G + 1]
    members: Tensor  # int64 [V]


def grouped(rows: Tensor) -> Groups:
    """Group equal rows [V, D]. Cost: a sort of V rows, or of V numbers on a GPU."""
    kind = kinds_by_number(rows) if explores_on(rows.device) else None
    if kind is None:
        kind = _kinds_by_bytes(rows)
    node = torch.arange(len(kind), device=kind.device)
    length = torch.bincount(kind)
    first = torch.full_like(length, len(kind)).scatter_reduce_(0, kind, node, "amin")
    order = torch.argsort(first)
    group = torch.argsort(order)[kind]
    start = torch.nn.functional.pad(length[order].cumsum(0), (1, 0))
    return Groups(rows[first[order]], group, start, torch.argsort(group, stable=True))


def _kinds_by_bytes(rows: Tensor) -> Tensor:
    """0, 1, ... for each row, the same for rows whose bytes are, by a sort of them."""
    table = np.ascontiguousarray(rows.cpu().numpy())
    whole = table.view(np.dtype((np.void, table.itemsize * table.shape[1]))).ravel()
    return torch.from_numpy(np.unique(whole, return_inverse=True)[1]).to(rows.device)
