"""New nodes for a model that was not fitted from tables: in a larger graph, or as arrays.

A larger graph has the nodes of the fit first, in their order and with their attributes, and the new
nodes after them. Arrays have the new nodes alone, which are numbered from V on. Links between two
nodes of the fit are those of the fit: others are refused, but not read where the fit is for links,
because they may be links of its test.
"""

from __future__ import annotations

from os import PathLike
from typing import Any

import numpy as np
from scipy import sparse

from xtcl.errors import DataError, UsageError, first_few
from xtcl.graph.convert import as_graph, is_of
from xtcl.graph.graph import Graph
from xtcl.graph.pairs import pair_keys, pairs_among
from xtcl.graph.tables.encode import NewNodes
from xtcl.graph.validation import Attributes, check_attributes, check_edges
from xtcl.inference.tables import names_of

Links = np.ndarray[Any, Any]


def read_new_nodes(
    graph: Graph, nodes: Any, edges: Any, *, links_hidden: bool
) -> tuple[NewNodes, Links]:
    """The new nodes, and their links [2, n], in which V is the first of them.

    `graph` is that of the fit. `links_hidden` says that some of its links may have been hidden.
    """
    if isinstance(nodes, str | PathLike) or hasattr(nodes, "columns"):
        raise UsageError(
            f"New nodes are a {type(nodes).__name__}, and this model was fitted without a table "
            "that says how to read one: fit it from tables (--nodes and --edges, or read_tables), "
            "or give a graph of the old and the new nodes, or their attributes [n, D] and links "
            "[2, m] as arrays."
        )
    # Of a fit without attributes there are no rows of them, so a SciPy matrix is the adjacency.
    matrix_of_links = sparse.issparse(nodes) and not graph.has_attributes
    is_graph = isinstance(nodes, Graph) or is_of(nodes, "torch_geometric")
    if is_graph or is_of(nodes, "networkx") or matrix_of_links:
        if edges is not None:
            raise UsageError(
                "A graph of the old and the new nodes has their links already: leave out edges."
            )
        return _of_graph(graph, as_graph(nodes, warn_masks=False), links_hidden)
    return _of_arrays(graph, nodes, edges)


def _of_graph(graph: Graph, larger: Graph, links_hidden: bool) -> tuple[NewNodes, Links]:
    count = graph.num_nodes
    first = f"a larger graph has the {count:,} nodes of the fit first, in their order"
    if larger.num_nodes <= count:
        raise DataError(
            f"The graph '{larger.name}' has {larger.num_nodes:,} nodes, and {first}: put the new "
            "nodes after them."
        )
    if larger.node_ids is not None:
        was, given = (names_of(each)[:count].astype(str) for each in (graph, larger))
        _check_same(was != given, f"The graph '{larger.name}' has other ids", first)
    _check_columns(graph, larger.attributes)
    differs = _rows_that_differ(graph.attributes, larger.attributes[:count])
    _check_same(differs, f"The graph '{larger.name}' has other attributes", first)
    of_new = (larger.edges >= count).any(axis=0)
    keys = pair_keys(larger.edges[:, ~of_new], count)
    known = pair_keys(graph.edges, count)
    lacking = graph.edges[:, ~pairs_among(known, keys)]
    if lacking.size:
        raise DataError(
            f"The graph '{larger.name}' lacks {lacking.shape[1]:,} link(s) of the fit, the first "
            f"between the nodes {lacking[0, 0]} and {lacking[1, 0]}, and {first}: give it with all "
            "of their links."
        )
    if not links_hidden:
        _refuse_between_old(larger.edges[:, ~of_new][:, ~pairs_among(keys, known)])
    ids = np.arange(larger.num_nodes) if larger.node_ids is None else names_of(larger)
    return NewNodes(ids[count:], larger.attributes[count:]), larger.edges[:, of_new]


def _of_arrays(graph: Graph, nodes: Any, edges: Any) -> tuple[NewNodes, Links]:
    count = graph.num_nodes
    attributes = check_attributes(nodes)
    if not attributes.shape[0]:
        raise DataError("There is no new node: give a row of attributes for each.")
    _check_columns(graph, attributes)
    links, total = check_edges(edges), count + attributes.shape[0]
    wrong = np.unique(links[(links < 0) | (links >= total)])
    if wrong.size:
        raise DataError(
            f"The new links name the nodes {first_few(wrong.tolist())}: the nodes of the fit are 0 "
            f"to {count - 1}, and the new ones {count} to {total - 1}."
        )
    _refuse_between_old(links[:, (links < count).all(axis=0)])
    return NewNodes(np.arange(count, total), attributes), links.astype(np.int64)


def _check_columns(graph: Graph, attributes: Attributes) -> None:
    if attributes.shape[1] != graph.num_attributes:
        raise DataError(
            f"The new nodes have {attributes.shape[1]} attributes, and those of the fit have "
            f"{graph.num_attributes}: give the same columns in the same order."
        )


def _check_same(differs: Links, what: str, first: str) -> None:
    places = np.flatnonzero(differs)
    if places.size:
        raise DataError(
            f"{what} than the fit at the nodes {first_few(places.tolist())}, and {first}: put the "
            "new nodes after them, and change nothing of the old ones."
        )


def _refuse_between_old(links: Links) -> None:
    if links.size:
        raise DataError(
            f"{links.shape[1]:,} of the new links lead from a node of the fit to another ("
            f"{links[0, 0]} and {links[1, 0]} are the first); new links have a new node at one end "
            "at least. Fit again to use those."
        )


def _rows_that_differ(one: Attributes, other: Attributes) -> Links:
    """For each row whether it differs."""
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return np.asarray((one != other).any(axis=1))
    difference = sparse.csr_array(one) - sparse.csr_array(other)
    return np.asarray(abs(difference).sum(axis=1) > 0)
