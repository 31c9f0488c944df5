"""Similarities of one relation as arrays, for a graph instead of a `TrainingView`.

The methods `matrix`, `rows`, `pairs` and `thresholds` of `Relation` are these functions. Values are
those of the rows that a fit computes on a CPU, to the last bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from xtcl.device import memory_there
from xtcl.errors import DataError, UsageError, first_few, is_number
from xtcl.graph.convert import as_graph, is_of
from xtcl.graph.splits import masks_of
from xtcl.graph.validation import to_array
from xtcl.relations.blocks import rows_per_block
from xtcl.relations.registry import resolve_relations
from xtcl.relations.relation import Relation
from xtcl.relations.row_source import LevelSource
from xtcl.relations.rows import DenseRows, pair_similarities
from xtcl.relations.thresholds import thresholds
from xtcl.relations.view import LABELS, TrainingView

PAIRS_PER_CALL = 2**20
"""Pairs that a relation computes at once where it needs no rows for them."""


def similarity_matrix(
    relation: Relation, graph: Any, quantile: float | None = None, labelled: ArrayLike | None = None
) -> np.ndarray | sp.csr_array:
    """All similarities, float32 [V, V]; with a quantile those of the above pairs, as CSR.

    Cost: that of V rows, and 4 V^2 bytes; with a quantile some bytes for each pair that is above.
    """
    view = view_of(relation, graph, labelled)
    num_nodes = view.num_nodes
    if quantile is not None:
        return _matrix_of_above(relation, view, quantile)
    wanted, there = 4 * num_nodes**2, memory_there("cpu")
    if wanted > there:
        raise UsageError(
            f"All similarities of {num_nodes:,} nodes take {wanted / 2**30:,.0f} GB, and this "
            f"machine has {there / 2**30:,.0f} GB: give quantile=0.99 for a sparse matrix of the "
            "pairs that are above, or ask for some rows."
        )
    matrix = np.empty((num_nodes, num_nodes), dtype=np.float32)
    for nodes, similarities in relation.on(view).tiles(torch.arange(num_nodes)):
        matrix[nodes.cpu().numpy()] = similarities.cpu().numpy()
    return matrix


def _matrix_of_above(relation: Relation, view: TrainingView, quantile: float) -> sp.csr_array:
    source = LevelSource(relation, view, _checked_quantile(quantile))
    blocks = [
        source.rows(nodes).matrix(view.num_nodes) for nodes in _blocks(view, _every_node(view))
    ]
    return sp.csr_array(sp.vstack(blocks, format="csr"))


def similarity_rows(
    relation: Relation, graph: Any, nodes: ArrayLike, labelled: ArrayLike | None = None
) -> np.ndarray:
    """Similarities of `nodes` to all nodes, float32 [b, V]. Cost: that of the rows."""
    view = view_of(relation, graph, labelled)
    found = np.empty((len(places := node_array(nodes, view.num_nodes)), view.num_nodes), np.float32)
    if len(places):
        found[:] = relation.on(view)(torch.from_numpy(places)).cpu().numpy()
    return found


def similarities_of_pairs(
    relation: Relation, graph: Any, pairs: ArrayLike, labelled: ArrayLike | None = None
) -> np.ndarray:
    """s(u, v) of each of the pairs [2, n], float32 [n].

    Cost: that of `Relation.of_pairs`; without it, that of a row for each different u, in blocks.
    """
    view = view_of(relation, graph, labelled)
    chosen = pair_array(pairs, view.num_nodes)
    found = np.empty(chosen.shape[1], dtype=np.float32)
    of_pairs = relation.pairs_on(view)
    in_rows = np.ones(len(found), dtype=bool)
    if of_pairs is not None:  # which is for pairs of different nodes
        in_rows = chosen[0] == chosen[1]
        placed = torch.from_numpy(chosen[:, ~in_rows]).to(view.device)
        parts = [of_pairs(u, v).cpu() for u, v in torch.split(placed, PAIRS_PER_CALL, dim=1)]
        found[~in_rows] = torch.cat(parts).numpy()
    rows = DenseRows([relation], view, (0.0,))
    found[in_rows] = pair_similarities(rows, chosen[:, in_rows], rows.block_rows)[:, 0]
    return found


def thresholds_of_rows(
    relation: Relation,
    graph: Any,
    nodes: ArrayLike | None = None,
    quantile: float = 0.99,
    labelled: ArrayLike | None = None,
) -> np.ndarray:
    """Eta of the rows of `nodes`, by default of all: float32 [b]. Cost: that of the rows."""
    view = view_of(relation, graph, labelled)
    levels = _checked_quantile(quantile)
    chosen = _every_node(view) if nodes is None else node_array(nodes, view.num_nodes)
    rows = relation.on(view)
    found = [
        thresholds(rows(block), block, levels)[:, 0].cpu().numpy()
        for block in _blocks(view, chosen)
    ]
    return np.concatenate(found or [np.zeros(0, dtype=np.float32)])


def view_of(relation: Relation, graph: Any, labelled: ArrayLike | None = None) -> TrainingView:
    """What `relation` reads of `graph`; an error where the graph does not have it.

    A `TrainingView` is taken as it is. Of any other graph, labels are read if the relation reads
    labels: those of the nodes (or mask) `labelled`, or all; of a PyG `Data` with a `train_mask`
    those in the mask.
    """
    (relation,) = resolve_relations(relation)  # refuses a class that does not say what it reads
    if isinstance(graph, TrainingView):
        if labelled is not None:
            raise UsageError(
                "A TrainingView has the labels that may be read: leave out labelled=, or give it "
                "to TrainingView.of(graph, labelled)."
            )
        view, name = graph, "the view"
    else:
        given, graph = graph, as_graph(graph, warn_masks=False)
        chosen: ArrayLike = ()
        if relation.reads_labels:
            in_mask = masks_of(given, graph) if is_of(given, "torch_geometric") else None
            own = np.ones(graph.num_nodes, bool) if in_mask is None else in_mask.train
            chosen = own if labelled is None else labelled
        places = node_array(chosen, graph.num_nodes, "labelled")
        view, name = TrainingView.of(graph, places), f"the graph '{graph.name}'"
    missing = sorted(relation.reads - view.available)
    if missing:
        among = " among labelled=" if missing == [LABELS] and labelled is not None else ""
        raise DataError(
            f"Relation '{relation.name}' reads {' and '.join(missing)}, and {name} has none"
            f"{among}: choose another relation, or a graph that has them."
        )
    return view


def node_array(nodes: ArrayLike, num_nodes: int, what: str = "nodes") -> np.ndarray:
    """The numbers int64 [b] of `nodes`: numbers, or a mask of all nodes."""
    found = np.atleast_1d(to_array(nodes, what))
    if found.dtype == bool and found.shape == (num_nodes,):
        return np.flatnonzero(found)
    if found.size == 0 and found.ndim == 1:
        return np.zeros(0, dtype=np.int64)
    if found.ndim != 1 or found.dtype.kind not in "iu":
        raise UsageError(
            f"{what} must be node numbers [b] or a mask [{num_nodes}], not an array of "
            f"{found.dtype} {list(found.shape)}."
        )
    _check_range(found, num_nodes, what)
    return found.astype(np.int64)


def pair_array(pairs: ArrayLike, num_nodes: int) -> np.ndarray:
    """The pairs int64 [2, n] of node numbers."""
    found = to_array(pairs, "pairs")
    if found.ndim != 2 or len(found) != 2 or (found.size and found.dtype.kind not in "iu"):
        raise UsageError(
            "pairs must be node numbers [2, n], the first row u and the second v, not an array of "
            f"{found.dtype} {list(found.shape)}."
        )
    _check_range(found, num_nodes, "pairs")
    return found.astype(np.int64)


def _checked_quantile(quantile: float) -> tuple[float]:
    if not is_number(quantile) or not 0 <= quantile < 1:
        raise UsageError(f"quantile={quantile} must be a number in [0, 1), such as 0.99.")
    return (quantile,)


def _check_range(found: np.ndarray, num_nodes: int, what: str) -> None:
    wrong = found[(found < 0) | (found >= num_nodes)]
    if wrong.size:
        raise UsageError(
            f"{what} must be numbers from 0 to {num_nodes - 1}, one for each node of the graph, "
            f"not {first_few(np.unique(wrong).tolist())}."
        )


def _every_node(view: TrainingView) -> np.ndarray:
    return np.arange(view.num_nodes)


def _blocks(view: TrainingView, nodes: np.ndarray) -> tuple[Tensor, ...]:
    """`nodes`, if any, in blocks whose rows fit into memory."""
    if not len(nodes):
        return ()
    placed = torch.from_numpy(nodes).to(view.device)
    return torch.split(placed, rows_per_block(view.num_nodes, view.device))
