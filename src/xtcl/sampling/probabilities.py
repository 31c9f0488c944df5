"""f_u(v) of many pairs, from the pattern codes in the rows of their nodes u; what explains it.

Rows are computed outside of a pass (`RelationRows.over`), as for an explanation. In top-k mode a
short pass may search in another way, and the result of a pair must not depend on the other pairs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from xtcl.relations.blocks import run_in_blocks
from xtcl.relations.rows import RelationRows
from xtcl.relations.sparse import SparseRows
from xtcl.sampling.patterns import margin_table
from xtcl.sampling.stumps import Stumps, sigmoid


def probabilities_of_nodes(
    rows: RelationRows, stumps: Stumps, nodes: np.ndarray, height: int
) -> np.ndarray:
    """f_u(v) of `nodes` [b] with all nodes: float64 [b, V]. Cost: that of the rows, and O(b V)."""
    of_code = _probability_of_code(stumps)
    found = np.full((len(nodes), rows.num_nodes), of_code[0])
    for first, listed in _listed(rows, nodes, height):
        place = first + listed.row.cpu().numpy(), listed.node.cpu().numpy()
        found[place] = of_code[listed.values.cpu().numpy()]
    return found


def probabilities_of_pairs(
    rows: RelationRows, stumps: Stumps, pairs: np.ndarray, height: int
) -> np.ndarray:
    """f_u(v) of the pairs [2, n]: float64 [n].

    Cost: that of the rows of all different u, and O(n log m) for m pairs listed in a block.
    """
    of_code = _probability_of_code(stumps)
    found = np.full(pairs.shape[1], of_code[0])
    nodes, row = np.unique(pairs[0], return_inverse=True)
    order = np.argsort(row, kind="stable")
    start = np.searchsorted(row[order], np.arange(len(nodes) + 1))
    for first, listed in _listed(rows, nodes, height):
        asked = order[start[first] : start[first + listed.num_rows]]
        known = listed.key(rows.num_nodes).cpu().numpy()  # ascending
        wanted = (row[asked] - first) * rows.num_nodes + pairs[1, asked]
        place = np.searchsorted(known, wanted)
        there = np.append(known, -1)[place] == wanted
        found[asked[there]] = of_code[listed.values.cpu().numpy()[place[there]]]
    return found


def _probability_of_code(stumps: Stumps) -> np.ndarray:
    """The probability of every pattern; a pair that is above for no relation has code 0."""
    return sigmoid(margin_table(stumps, above_only=False))


def _listed(rows: RelationRows, nodes: np.ndarray, height: int) -> Iterator[tuple[int, SparseRows]]:
    """The pairs of blocks of `nodes` whose code is not 0, and the place of each block's first."""
    first = 0
    for listed in run_in_blocks(rows.listed, torch.from_numpy(nodes).to(rows.device), height):
        yield first, listed
        first += listed.num_rows


@dataclass(frozen=True)
class PairSignal:
    """One relation's contribution to the score of a pair."""

    relation: str
    similarity: float
    thresholds: tuple[float, ...]
    level: int
    weight: float


@dataclass(frozen=True)
class PairExplanation:
    """Why v is a positive of u or not: the signals, strongest first, and their sum."""

    u: int
    v: int
    base: float
    signals: tuple[PairSignal, ...]
    score: float
    probability: float
