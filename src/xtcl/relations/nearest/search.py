"""Exact search for the largest inner products, a tile of columns at a time."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

Found = tuple[Tensor, Tensor]
"""Inner products cut to [0, 1], descending, float32 [b, k], and whose they are, int64 [b, k].

Equals are in the order of their rows. Where nothing positive is left the product is 0.
"""

Search = Callable[[Tensor], Found]
"""Takes which rows to search for [b]."""


def blocked_search(rows: Tensor, number: int) -> Search:
    """The `number` best of `rows` [G, D] for some of them.

    Cost: O(b G D), of which a product of matrices is nearly all, and O(b (tile + k)) memory.
    """
    number = min(number, len(rows))
    rows = torch.nn.functional.pad(rows, (0, 0, 0, -len(rows) % 64))  # zero rows
    height, width = (256, 4096) if rows.device.type == "cpu" else (4096, 32768)

    def search(asked: Tensor) -> Found:
        tiles = [tile(part) for part in torch.split(asked.to(rows.device), height)]
        return torch.cat([tile[0] for tile in tiles]), torch.cat([tile[1] for tile in tiles])

    def tile(asked: Tensor) -> Found:
        # A product may round differently when its shape changes: all tiles have the same.
        query = rows[torch.nn.functional.pad(asked, (0, height - len(asked)))]
        best = torch.zeros(height, number, device=rows.device)
        place = torch.zeros(height, number, dtype=torch.int64, device=rows.device)
        # One buffer for all: fresh pages would cost as much as a product of few factors.
        buffer = torch.empty(height * width, device=rows.device)
        for start in range(0, len(rows), width):
            columns = rows[start : start + width].T
            products = buffer[: height * columns.shape[1]].view(height, -1)
            torch.mm(query, columns, out=products)
            least = best[:, -1:]
            if start == 0:  # what cannot be among the best of the first tile is not worth a sort
                top = torch.topk(products, min(number, products.shape[1]), dim=1).values[:, -1:]
                least = top.clamp_(0.0, 1.0).nextafter(torch.full_like(top, -1.0)).clamp_min_(0.0)
            best, place = _merged(best, place, products, least, start)
        return best[: len(asked)], place[: len(asked)]

    return search


def _merged(best: Tensor, place: Tensor, products: Tensor, least: Tensor, start: int) -> Found:
    """The best so far, and of `products`, the columns from `start` on, what exceeds `least`."""
    row, column = _where(products > least)
    value = products[row, column].clamp_max(1.0)
    # Cut to 1, a product may turn out to be no larger than what was found before.
    larger = value > least[row, 0]
    row, column, value = row[larger], column[larger], value[larger]
    if not len(row):
        return best, place
    count = torch.bincount(row, minlength=len(best))
    turn = torch.arange(len(row), device=row.device) - (count.cumsum(0) - count)[row]
    extra = best.shape[1] + turn
    wide = torch.nn.functional.pad(best, (0, int(count.max())))
    where = torch.nn.functional.pad(place, (0, int(count.max())))
    wide[row, extra], where[row, extra] = value, start + column
    order = torch.sort(wide, dim=1, descending=True, stable=True).indices[:, : best.shape[1]]
    return wide.gather(1, order), where.gather(1, order)


def _where(mask: Tensor) -> Found:
    """Row and column of what is true, by rows; few are, so eight at a time are looked at first."""
    if mask.shape[1] % 8:
        return torch.nonzero(mask, as_tuple=True)  # type: ignore[return-value]
    row, word = torch.nonzero(mask.view(torch.int64), as_tuple=True)
    hit, byte = torch.nonzero(mask.view(len(mask), -1, 8)[row, word], as_tuple=True)
    return row[hit], 8 * word[hit] + byte
