"""Exact search for the largest inner products, a tile of columns at a time."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from xtcl.errors import UsageError

Neighbors = tuple[Tensor, Tensor]
"""Inner products cut to [0, 1], descending, float32 [b, k], and the indices of these
rows, int64 [b, k].

Equal products are in the order of their rows. Where nothing positive is left the product is 0.
"""


Search = Callable[[Tensor], Neighbors]
"""Takes which rows to search for [b]."""


def blocked_search(rows: Tensor, number: int) -> Search:
    """The `number` best of `rows` [G, D] for some of them.

    Cost: O(b G D), of which a product of matrices is nearly all, and O(b (tile + k)) memory.
    """
    number = min(number, len(rows))
    rows = torch.nn.functional.pad(rows, (0, 0, 0, -len(rows) % 64))  # zero rows
    height, width = (256, 4096) if rows.device.type == "cpu" else (4096, 32768)

    def search(asked: Tensor) -> Neighbors:
        tiles = [tile(part) for part in torch.split(asked.to(rows.device), height)]
        return torch.cat([tile[0] for tile in tiles]), torch.cat([tile[1] for tile in tiles])

    def tile(asked: Tensor) -> Neighbors:
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


def _merged(best: Tensor, place: Tensor, products: Tensor, least: Tensor, start: int) -> Neighbors:
    """The best so far, and of `products`, the columns from `start` on, what exceeds `least`."""
    row, column = _where(products > least)
    value = products[row, column].clamp_max(1.0)
    # Cut to 1, a product may turn out to be no larger than what was found before.
    larger = value > least[row, 0]
    row, column, value = row[larger], column[larger], value[larger]
    if not len(row):
        return best, place
    count = torch.bincount(row, minlength=len(best))
    rank_in_row = torch.arange(len(row), device=row.device) - (count.cumsum(0) - count)[row]
    extra = best.shape[1] + rank_in_row
    wide = torch.nn.functional.pad(best, (0, int(count.max())))
    where = torch.nn.functional.pad(place, (0, int(count.max())))
    wide[row, extra], where[row, extra] = value, start + column
    order = torch.sort(wide, dim=1, descending=True, stable=True).indices[:, : best.shape[1]]
    return wide.gather(1, order), where.gather(1, order)


def _where(mask: Tensor) -> Neighbors:
    """Row and column of the true entries. Tests eight entries at once, because few are true."""
    if mask.shape[1] % 8:
        return torch.nonzero(mask, as_tuple=True)  # type: ignore[return-value]
    row, word = torch.nonzero(mask.view(torch.int64), as_tuple=True)
    hit, byte = torch.nonzero(mask.view(len(mask), -1, 8)[row, word], as_tuple=True)
    return row[hit], 8 * word[hit] + byte


MIN_RECALL = 0.95
"""The share of the exact neighbours that a search by an index should find."""


MAX_PROBES = 32
"""Cells that a query is compared with, at most."""


RECALL_QUERIES = 256
"""Queries from which the recall is estimated."""


QUERIES_PER_CALL = 64
"""Queries that FAISS gets at once."""


POINTS_PER_CENTROID = 64
"""Training rows for each centre: a quarter of FAISS's default and of its time."""


class IndexSearch:
    """The `number` best of `rows` [G, D], all of unit length or zero, by an inverted file of FAISS.

    Rows are sorted into cells around 4 sqrt(G) centres, and a query is compared with the cells
    nearest to it. Their number is doubled, up to MAX_PROBES, until a sample of queries finds a
    share MIN_RECALL of what exact search finds. The share reached is kept as `recall`.

    Where rows lie in clusters a few cells are enough. Where they are spread evenly, as the means of
    random neighbours are, hardly any row is nearer than others, and more cells would find other
    rows of nearly the same similarity at a cost that grows like that of exact search.

    Cost: O(G^1.5 D) to build, O(b D sqrt(G) probes) for b queries.
    Citation: Douze et al., "The Faiss library", 2024.
    """

    def __init__(self, rows: Tensor, number: int) -> None:
        faiss = _faiss()
        self.device = rows.device
        self.rows = np.ascontiguousarray(rows.cpu().numpy())
        self.number = min(number, len(rows))
        cells = max(1, min(int(4 * math.sqrt(len(rows))), len(rows) // 40))
        centres = faiss.IndexFlatIP(rows.shape[1])
        self.index: Any = faiss.IndexIVFFlat(
            centres, rows.shape[1], cells, faiss.METRIC_INNER_PRODUCT
        )
        self.index.cp.max_points_per_centroid = POINTS_PER_CENTROID
        self.index.train(self.rows)
        self.index.add(self.rows)
        self.recall = self._widen(rows, min(MAX_PROBES, max(1, cells // 16)))

    def _widen(self, rows: Tensor, max_probes: int) -> float:
        sample = torch.linspace(0, len(rows) - 1, min(RECALL_QUERIES, len(rows))).long()
        exact = blocked_search(rows, self.number)(sample)
        self.index.nprobe = min(8, max_probes)
        while (recall := _share(self(sample), exact)) < MIN_RECALL:
            if self.index.nprobe >= max_probes:
                break
            self.index.nprobe = min(2 * self.index.nprobe, max_probes)
        return recall

    def __call__(self, asked: Tensor) -> Neighbors:
        """Search for the rows `asked`.

        FAISS gets them in calls of fixed size, so that results do not depend on the batch.
        """
        parts = []
        for part in torch.split(asked.cpu(), QUERIES_PER_CALL):
            padded = torch.nn.functional.pad(part, (0, QUERIES_PER_CALL - len(part)))
            value, place = self.index.search(self.rows[padded.numpy()], self.number)
            parts.append((value[: len(part)], place[: len(part)]))
        value, place = (np.concatenate(both) for both in zip(*parts, strict=True))
        value = np.where(place < 0, 0, value.clip(0, 1))
        order = np.lexsort((place, -value))
        found = (torch.from_numpy(np.take_along_axis(part, order, 1)) for part in (value, place))
        values, places = (part.to(self.device) for part in found)
        return values, places


def _share(found: Neighbors, exact: Neighbors) -> float:
    """The share of the exact places with a positive product that was found."""
    hits = (exact[1][:, :, None] == found[1][:, None, :]).any(dim=2)
    positive = exact[0] > 0
    return float(hits[positive].float().mean()) if positive.any() else 1.0


def index_name(index_past: int | None) -> dict[str, Any]:
    """What decides which lists an index finds: its threshold and the version of FAISS."""
    if index_past is None:
        return {}
    try:
        import faiss
    except ImportError:  # not needed for a graph below the threshold
        return {"index_past": index_past, "faiss": None}
    return {"index_past": index_past, "faiss": str(faiss.__version__)}


def _faiss() -> Any:
    try:
        import faiss
    except ImportError:
        raise UsageError(
            "An index for nearest rows needs FAISS: pip install 'xtcl[faiss]', or leave "
            "index_past out for exact search."
        ) from None
    faiss.omp_set_num_threads(torch.get_num_threads())
    return faiss
