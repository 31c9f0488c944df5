"""Any relation: whole rows, a tile at a time, and the best of each."""

from __future__ import annotations

import torch
from torch import Tensor

from xtcl.relations.nearest.cut import Cut, best_of_rows
from xtcl.relations.nearest.rows import Nearest, NearestRows
from xtcl.relations.relation import SimilarityRows


def of_whole_rows(rows: SimilarityRows, cut: Cut) -> Nearest:
    """Cost: that of the rows, and O(tile V) memory."""

    def find(nodes: Tensor) -> NearestRows:
        lengths, found, values = [], [], []
        for part in torch.split(nodes.to(rows.device), rows.tile):
            similarities = rows(part)
            kept = best_of_rows(similarities, part, cut)
            lengths.append(kept.sum(dim=1))
            found.append(kept.nonzero()[:, 1])
            values.append(similarities[kept])
        start = torch.nn.functional.pad(torch.cat(lengths).cumsum(0), (1, 0))
        return NearestRows(start, torch.cat(found), torch.cat(values))

    return find
