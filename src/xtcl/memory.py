"""A memory budget, and the block height that keeps it."""

from __future__ import annotations

import re

import scipy.sparse as sp

from xtcl.errors import BudgetError, UsageError
from xtcl.graph.graph import Graph
from xtcl.relations.capped_rows import LISTED_ROWS

UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}

PAIR_BYTES = 48
"""Bytes a pair of the current block costs at the peak: its similarity, a copy to sort, the level,
the score, and two double-precision sort keys of the tie-break with their intermediates."""

LISTED_BYTES = 160
"""The same for a pair that top-k mode lists: its keys and digits before and after they are merged,
and the columns its score, tie-break and node are put into."""

RELATIONS = 9
"""Lists of a node in top-k mode, each as long as the cap."""

FACTORS = 5
"""Dense matrices of the size of the attributes: two relations' factors, the tie-break's, the
encoder's input and its smoothed form."""

INTERPRETER = 600 * 2**20
"""What Python, torch and PyG take before any work."""

EXPLORATION = 300 * 2**20
"""What searches of sparse graphs list at a time in top-k mode (`relations.nearest.parts`)."""

SMALLEST_BLOCK = 64


def parse_memory(text: str | int) -> int:
    """Bytes of "4GB", "512M", "1.5 GiB" or a plain number."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?\s*", str(text), re.IGNORECASE)
    if match is None or float(match[1]) == 0:
        raise UsageError(f"memory='{text}' is not an amount of memory; write something like 4GB.")
    return int(float(match[1]) * UNITS[match[2].upper()])


def fixed_bytes(graph: Graph, width: int, cap: int | None = None) -> int:
    """What a fit of `graph` to `width` dimensions takes beside its blocks of pairs.

    With a `cap` it is that of top-k mode, which also keeps a list of `cap` nodes for every node.
    """
    nodes, columns = graph.num_nodes, max(graph.num_attributes, 1)
    given = graph.attributes
    stored = given.data.nbytes if sp.issparse(given) else given.nbytes
    matrices = 4 * nodes * (FACTORS * columns + 6 * width)
    fixed = INTERPRETER + stored + matrices + 64 * graph.num_edges
    if cap is not None:
        fixed += EXPLORATION + 4 * nodes * (FACTORS * columns + 4 * min(cap, nodes))
    return int(fixed)


def rows_within(budget: int, graph: Graph, width: int, cap: int | None = None) -> int:
    """The block height with which a fit of `graph` to `width` dimensions stays within `budget`."""
    nodes = graph.num_nodes
    fixed = fixed_bytes(graph, width, cap)
    listed = nodes if cap is None else min(RELATIONS * cap, nodes)
    row = (PAIR_BYTES if cap is None else LISTED_BYTES) * listed
    least = fixed + SMALLEST_BLOCK * row
    if least > budget:
        raise BudgetError(
            f"A fit of graph '{graph.name}' needs about {least / 2**30:.1f} GB and the budget is "
            f"{budget / 2**30:.1f} GB: {fixed / 2**30:.1f} GB for attributes, factors and "
            f"embeddings, {row * SMALLEST_BLOCK / 2**30:.2f} GB for the smallest block. Allow more "
            "memory, or use fewer attributes or a smaller width."
        )
    rows = int((budget - fixed) // row)
    return rows if cap is None else min(rows, LISTED_ROWS)
