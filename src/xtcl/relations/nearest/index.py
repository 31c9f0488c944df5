"""Approximate search for the largest inner products, by an inverted file of FAISS.

Rows are sorted into cells around 4 sqrt(G) centres, and a query looks into the cells nearest to it.
How many is found by trial: they are doubled until a sample of queries finds a share GOOD of what
exact search finds, but to no more than PROBES. The share reached is kept as `recall`.

Where rows lie in clusters a few cells are enough. Where they are spread evenly, as the means of
random neighbours are, hardly any row is nearer than others, and more cells would find other rows of
nearly the same similarity at a cost that grows like that of exact search.

Cost: O(G^1.5 D) to build, O(b D sqrt(G) probes) for b queries.
Citation: Douze et al., "The Faiss library", 2024.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from xtcl.errors import UsageError
from xtcl.relations.nearest.search import Found, blocked_search

GOOD = 0.95
PROBES = 32
SAMPLE = 256
TILE = 64
POINTS = 64
"""Rows a centre is found from: a quarter of FAISS's own, for a quarter of the time."""


class IndexSearch:
    """The `number` best of `rows` [G, D], all of unit length or zero, for some of them."""

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
        self.index.cp.max_points_per_centroid = POINTS
        self.index.train(self.rows)
        self.index.add(self.rows)
        self.recall = self._widen(rows, min(PROBES, max(1, cells // 16)))

    def _widen(self, rows: Tensor, most: int) -> float:
        sample = torch.linspace(0, len(rows) - 1, min(SAMPLE, len(rows))).long()
        exact = blocked_search(rows, self.number)(sample)
        self.index.nprobe = min(8, most)
        while (reached := _share(self(sample), exact)) < GOOD and self.index.nprobe < most:
            self.index.nprobe = min(2 * self.index.nprobe, most)
        return reached

    def __call__(self, asked: Tensor) -> Found:
        """Search for the rows `asked`, in tiles of one height, so that each comes out the same."""
        parts = []
        for part in torch.split(asked.cpu(), TILE):
            padded = torch.nn.functional.pad(part, (0, TILE - len(part)))
            value, place = self.index.search(self.rows[padded.numpy()], self.number)
            parts.append((value[: len(part)], place[: len(part)]))
        value, place = (np.concatenate(both) for both in zip(*parts, strict=True))
        value = np.where(place < 0, 0, value.clip(0, 1))
        order = np.lexsort((place, -value))
        found = (torch.from_numpy(np.take_along_axis(part, order, 1)) for part in (value, place))
        values, places = (part.to(self.device) for part in found)
        return values, places


def _share(found: Found, exact: Found) -> float:
    """Of the exact places with a positive product, how many were found."""
    hits = (exact[1][:, :, None] == found[1][:, None, :]).any(dim=2)
    positive = exact[0] > 0
    return float(hits[positive].float().mean()) if positive.any() else 1.0


def index_name(index_past: int | None) -> dict[str, Any]:
    """What decides which lists an index finds: when it is asked, and whose it is."""
    if index_past is None:
        return {}
    try:
        import faiss
    except ImportError:  # where rows are fewer than they might be it is not needed
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
