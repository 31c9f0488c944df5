"""Link: the row is sparse as it stands."""

from __future__ import annotations

import numpy as np

from xtcl.relations.link import Link, normalised_adjacency
from xtcl.relations.nearest.cut import Cut
from xtcl.relations.nearest.parts import in_parts
from xtcl.relations.nearest.rows import Nearest
from xtcl.relations.view import TrainingView


def nearest_by_link(relation: Link, view: TrainingView, cut: Cut) -> Nearest:
    """Exact. Cost: O(d_u) for a row."""
    weights = normalised_adjacency(view.adjacency)
    return in_parts(lambda nodes: weights[nodes], np.diff(weights.indptr), cut, view)
