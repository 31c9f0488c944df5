"""Link: the row is sparse as it stands."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from xtcl.relations.link import Link, normalised_adjacency
from xtcl.relations.nearest.cut import Cut
from xtcl.relations.nearest.on_device.links import Links
from xtcl.relations.nearest.on_device.lists import Lists
from xtcl.relations.nearest.on_device.parts import in_parts
from xtcl.relations.nearest.rows import Nearest
from xtcl.relations.sparse import row_entries
from xtcl.relations.view import TrainingView


def nearest_by_link(relation: Link, view: TrainingView, cut: Cut) -> Nearest:
    """Exact. Cost: O(d_u log d_u) for a row."""
    weights = normalised_adjacency(view.adjacency)
    links = Links.of(weights, view.device)

    def explore(nodes: Tensor) -> Lists:
        row, entry = row_entries(links.start, nodes)
        shape = (len(nodes), view.num_nodes)
        return Lists(row * view.num_nodes + links.end[entry], links.weight[entry], shape)

    return in_parts(explore, np.diff(weights.indptr), cut, view)
