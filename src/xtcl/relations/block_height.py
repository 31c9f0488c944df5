"""How many rows of similarities are worked on at once."""

from __future__ import annotations

import torch

from xtcl.relations.relation import tile_rows

CPU_BLOCK, GPU_BLOCK = 64 * 2**20, 256 * 2**20
"""Bytes of an array of a block. Every step of a GPU costs some microseconds, whatever its size."""


def block_height(num_nodes: int, device: torch.device | str = "cpu") -> int:
    """Rows of V floats for a block: whole tiles where it can hold one, and one row at least."""
    device = torch.device(device)
    most = (CPU_BLOCK if device.type == "cpu" else GPU_BLOCK) // (4 * num_nodes)
    tile = tile_rows(device)
    return max(1, most if most < tile else most - most % tile)
