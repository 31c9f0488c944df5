"""Bytes that relations take: what they keep, what making it takes, and a row of a block.

In exact mode they keep the attributes as a dense matrix, the factors of two relations and the links
in the form each sparse relation wants; for labels, the pairs above with a labelled node. In top-k
mode the factors are there once more in groups of equal rows, for the relation that breaks ties, and
in an index where there is one; and the attribute label distribution keeps a list of every node.
"""

from __future__ import annotations

import torch

from xtcl.planning.workload import LINKS, Workload
from xtcl.relations.block_height import block_height
from xtcl.relations.nearest.on_device.use import explores_on
from xtcl.relations.searched_lists import LISTED_ROWS

PAIR_BYTES = 56
"""Bytes a pair of the current block costs at the peak: its similarity, a copy to sort, the level,
the score, and two double-precision sort keys of the tie-break with their intermediates."""

LISTED_BYTES = 160
"""The same for a pair that top-k mode lists: its keys and digits before and after they are merged,
and the columns its score, tie-break and node are put into."""

RELATIONS = 9
"""Lists of a node in top-k mode, each as long as the cap."""

LINK_FORMS = 120
"""Bytes a link: five relations have it in both directions, each as a place and a number."""

EXPLORATION, GPU_EXPLORATION = 300 * 2**20, 2 * 2**30
"""What searches of sparse graphs list at a time in top-k mode (`relations.nearest.parts`, and
`on_device.parts`)."""

ABOVE_PAIR, LISTED_PAIR = 3, 4
"""Bytes of a pair in the relation store: where a row has few, its nodes lie further apart."""

SMALLEST_BLOCK = 64
"""Rows that most relations are computed in on a CPU, however few they are asked for."""


def kept_bytes(work: Workload) -> int:
    """What relations hold from their first row to the end of the fit."""
    shared = 4 * work.nodes * work.attributes + LINK_FORMS * work.edges + 40 * work.nodes
    if work.cap is None:
        return shared + 2 * work.factors + label_pairs_bytes(work)
    indexed = work.recipe.sampler.index_past
    copies = 5 if indexed is None or work.nodes <= indexed else 9
    return shared + copies * work.factors + label_pairs_bytes(work)


def preparing_bytes(work: Workload) -> int:
    """What making that takes for a moment, beside what is kept."""
    making = 2 * work.factors + label_pairs_bytes(work)
    if work.cap is None:
        return making
    on_gpu = explores_on(torch.device(work.device))
    return making + (GPU_EXPLORATION if on_gpu else EXPLORATION)


def label_pairs_bytes(work: Workload) -> int:
    """Pairs that spread labels: a similarity and the place of a node each."""
    if not work.labelled:
        return 0
    if work.cap is not None:
        return 12 * work.nodes * work.cap
    return int(12 * (1 - max(work.recipe.sampler.quantiles)) * work.nodes * work.labelled)


def row_bytes(work: Workload) -> int:
    """What one row of a block takes."""
    if work.cap is None:
        return PAIR_BYTES * work.nodes
    return LISTED_BYTES * min(RELATIONS * work.cap, work.nodes)


def usual_rows(work: Workload) -> int:
    """Rows of a block where memory is not short: more would make nothing quicker."""
    return block_height(work.nodes, work.device) if work.cap is None else LISTED_ROWS


def smallest_rows(work: Workload) -> int:
    """Rows of the smallest block that is worth the while."""
    return min(SMALLEST_BLOCK, usual_rows(work))


def found_bytes(work: Workload) -> int:
    """The tables of positives, for a moment twice."""
    return 24 * work.nodes * work.recipe.positives


def store_bytes(work: Workload) -> int:
    """What a relation store gets, about: the above pairs of all rows, and the positives."""
    if not work.store:
        return 0
    rows = work.rounds * work.nodes + work.queries
    above = (1 - min(work.recipe.sampler.quantiles)) * work.nodes
    relations = RELATIONS - (2 if work.task == LINKS else 0)
    positives = LISTED_PAIR * work.rounds * work.nodes * work.recipe.positives
    if work.cap is None:
        return int(ABOVE_PAIR * relations * rows * above) + positives
    return int(LISTED_PAIR * relations * rows * min(above, work.cap)) + positives
