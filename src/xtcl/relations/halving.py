"""Work in blocks of nodes, which are halved where the device has no room for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

import torch
from torch import Tensor

T = TypeVar("T")


def in_blocks(compute: Callable[[Tensor], T], nodes: Tensor, height: int) -> Iterator[T]:
    """`compute` of the `nodes`, `height` at a time; of fewer from where memory ran out.

    A row comes out the same whatever it is asked with, so the result does not change. What
    `compute` gives should be small where it lies on the device, and it must bear to be called again
    for some of the nodes of a call that failed.
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
        else:  # here, where the error no longer holds on to what the block was made of
            height = len(block) // 2
            torch.cuda.empty_cache()
