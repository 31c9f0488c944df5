"""Nodes by the ids that the user gave them."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

import numpy as np

from xtcl.answers.answer_table import MARK, MARKED
from xtcl.errors import UsageError
from xtcl.graph.graph import Graph

MANY = 20_000
"""Ids among which looking for a similar one would take seconds."""


def names_of(graph: Graph) -> np.ndarray[Any, Any]:
    """The id of every node; ids that are neither integers nor strings as text."""
    if graph.node_ids is None:
        return np.arange(graph.num_nodes)
    ids = graph.node_ids
    return ids if ids.dtype.kind in "iuU" else np.array([str(name) for name in ids])


def node_number(graph: Graph, name: object) -> int:
    """The number of the node with the id `name`; refuses one that is not there.

    An id with the apostrophe that CSV has in front of some is found, too.
    """
    names = names_of(graph)
    wanted = str(name)
    texts = names.astype(str)
    found = np.flatnonzero(texts == wanted)
    if not found.size and wanted.startswith(MARK) and wanted[1:].startswith(MARKED):
        found = np.flatnonzero(texts == wanted[1:])
    if not found.size:
        likely = get_close_matches(wanted, map(str, names), n=1) if len(names) <= MANY else []
        hint = f" Did you mean '{likely[0]}'?" if likely else ""
        raise UsageError(
            f"There is no node '{wanted[:80]}' among the {len(names):,} nodes of the run; give an "
            f"id as the tables have it, such as '{names[0]}'.{hint}"
        )
    return int(found[0])
