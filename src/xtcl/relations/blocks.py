"""How many rows of similarities are worked on at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch
from torch import Tensor

from xtcl.relations.relation import tile_rows

CPU_BLOCK, GPU_BLOCK = 64 * 2**20, 256 * 2**20
"""Bytes of an array of a block. Every step of a GPU costs some microseconds, whatever its size."""


def rows_per_block(num_nodes: int, device: torch.device | str = "cpu") -> int:
    """Rows of V floats for a block: whole tiles where it can hold one, and one row at least."""
    device = torch.device(device)
    rows = (CPU_BLOCK if device.type == "cpu" else GPU_BLOCK) // (4 * num_nodes)
    tile = tile_rows(device)
    return max(1, rows if rows < tile else rows - rows % tile)


T = TypeVar("T")


def run_in_blocks(compute: Callable[[Tensor], T], nodes: Tensor, height: int) -> Iterator[T]:
    """`compute` of the `nodes`, `height` at a time, and half as many after memory ran out.

    A row does not depend on the others of its block, so the height does not change the result. A
    result that stays on the device should be small. After a call that failed, `compute` is called
    again with some of the same nodes.
    """
    done = 0
    while done < len(nodes):
        block = nodes[done : done + height]
        found: list[T] = []
        try:
            found.append(compute(block))
        except torch.OutOfMemoryError:
            if len(block) == 1:
                raise
        if found:
            done += len(block)
            yield found[0]
        else:  # after the `except`, where the error would keep the tensors of the block
            height = len(block) // 2
            torch.cuda.empty_cache()


Part = TypeVar("Part")


Result = TypeVar("Result")


def thread_map(work: Callable[[Part], Result], parts: Sequence[Part]) -> list[Result]:
    """`work` of each part, in their order, by as many threads as torch has.

    For work of NumPy and SciPy on long arrays: they release Python's lock meanwhile.
    """
    workers = min(torch.get_num_threads(), len(parts))
    if workers <= 1:
        return [work(part) for part in parts]
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(work, parts))
