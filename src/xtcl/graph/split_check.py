"""The rules of a split, such as that nothing is on both its training and its test side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from xtcl.errors import DataError, UsageError, first_few
from xtcl.graph.convert import as_graph
from xtcl.graph.graph import Graph
from xtcl.graph.pairs import NodePair, count_pairs, pair_keys, pairs_among, unpack_keys
from xtcl.graph.validation import IntArray, to_array

if TYPE_CHECKING:
    from xtcl.graph.splits import LinkSplit, NodeSplit

LINK_SIDES = ("train", "test", "train_negatives", "test_negatives")
"""The four sets of pairs of a split of links."""


def check_no_leak(graph: Any, split: NodeSplit | LinkSplit) -> None:
    """Raise `DataError`, naming the first offenders, where `split` breaks a rule on `graph`.

    Nodes: in range, labelled, no duplicates, no node on both sides. Links: in range, no loops, no
    duplicates, training and test links are links of the graph and share none in either direction,
    negatives are non-links of the whole graph, share none, and are as many as the links of their
    side (or all there are, where the graph has too few). `graph` is a Graph or what `as_graph`
    makes one of.
    """
    if getattr(split, "kind", None) not in ("nodes", "links"):
        raise UsageError(
            f"A {type(split).__name__} is no split: give one of node_split or link_split, or make "
            "one of masks with NodeSplit.from_masks."
        )
    graph = as_graph(graph, warn_masks=False)
    if split.kind == "nodes":
        _check_nodes(graph, split)
    else:
        _check_links(graph, split)


def _check_nodes(graph: Graph, split: NodeSplit) -> None:
    """What a node split, which is sound in itself, can break on a graph."""
    if graph.labels is None:
        raise DataError(f"Graph {graph.name!r} has no labels, so a node split cannot be for it.")
    for side, nodes in (("training", split.train), ("test", split.test)):
        outside = nodes[nodes >= graph.num_nodes]
        _refuse(outside, f"{side} nodes are not in the graph of {graph.num_nodes} nodes")
        _refuse(nodes[graph.labels[nodes] < 0], f"{side} nodes have no label")


def check_node_sides(train: IntArray, test: IntArray) -> None:
    """Raise `DataError` where two sorted lists of nodes cannot be the sides of one split."""
    for side, nodes in (("training", train), ("test", test)):
        _refuse(nodes[nodes < 0], f"{side} nodes are below 0")
        _refuse(repeated_values(nodes), f"{side} nodes are listed twice")
    _refuse(test[pairs_among(test, train)], "nodes are both training and test nodes")


def mask_nodes(mask: object, name: str = "mask", graph: Graph | None = None) -> IntArray:
    """The nodes of a boolean mask or an array of node numbers, sorted.

    With `graph` the mask is checked against it, and nodes without a label are left out, where the
    graph has labels.
    """
    if isinstance(mask, Graph):
        raise DataError(f"{name} must be booleans, one a node, or node numbers, not a Graph.")
    given = to_array(mask, name)
    if given.ndim == 2:
        raise DataError(
            f"{name} has the shape {list(given.shape)}, which is several splits side by side: "
            f"give one of them, such as {name}[:, 0]."
        )
    numbers = given.dtype.kind in "iu" or not given.size
    if given.ndim != 1 or not (numbers or given.dtype == bool):
        raise DataError(
            f"{name} must be booleans, one a node, or node numbers, not {given.dtype} of shape "
            f"{list(given.shape)}."
        )
    nodes: IntArray = np.sort(given.astype(np.int64)) if numbers else np.flatnonzero(given)
    repeated = repeated_values(nodes)
    if repeated.size:
        raise DataError(
            f"{name} lists nodes twice: {first_few(repeated)}. Give each node number once, or a "
            "mask of booleans, one a node; labels belong to the graph."
        )
    if graph is None:
        return nodes
    if given.dtype == bool and len(given) != graph.num_nodes:
        raise DataError(
            f"{name} is for {len(given)} nodes, and graph {graph.name!r} has {graph.num_nodes}."
        )
    outside = nodes[(nodes < 0) | (nodes >= graph.num_nodes)]
    if outside.size:
        raise DataError(
            f"{name} names nodes that graph {graph.name!r} of {graph.num_nodes} nodes does not "
            f"have: {first_few(outside)}."
        )
    return nodes if graph.labels is None else nodes[graph.labels[nodes] >= 0]


def _check_links(graph: Graph, split: LinkSplit) -> None:
    check_pairs(graph, split)
    _check_balance(split, non_links=count_pairs(graph.num_nodes) - graph.num_edges)


def check_pairs(graph: Graph, split: LinkSplit) -> None:
    """All rules but the number of negatives."""
    n = graph.num_nodes
    if split.num_nodes != n:
        raise DataError(f"The split is for {split.num_nodes} nodes, and the graph has {n}.")
    for side in LINK_SIDES:
        pairs: NodePair = getattr(split, side)
        name = side.replace("_", " ")
        outside = pairs[:, (pairs[0] < 0) | (pairs[1] >= n)]
        _refuse(outside, f"{name} pairs are not in the graph of {n} nodes")
        _refuse(pairs[:, pairs[0] == pairs[1]], f"{name} pairs join a node to itself")
        _refuse(
            unpack_keys(repeated_values(pair_keys(pairs, n)), n), f"{name} pairs are listed twice"
        )

    keys = {side: pair_keys(getattr(split, side), n) for side in LINK_SIDES}
    links = pair_keys(graph.edges, n)
    for side in ("train", "test"):
        unknown = keys[side][~pairs_among(keys[side], links)]
        _refuse(unpack_keys(unknown, n), f"{side} pairs are not links of the graph")
        negatives = keys[f"{side}_negatives"]
        linked = negatives[pairs_among(negatives, links)]
        _refuse(unpack_keys(linked, n), f"{side} negatives are links of the graph")
    for kind, what in (("", "links"), ("_negatives", "negatives")):
        tested = keys[f"test{kind}"]
        shared = tested[pairs_among(tested, keys[f"train{kind}"])]
        _refuse(unpack_keys(shared, n), f"{what} are on both the training and the test side")


def _check_balance(split: LinkSplit, non_links: int) -> None:
    positives = [split.train.shape[1], split.test.shape[1]]
    negatives = [split.train_negatives.shape[1], split.test_negatives.shape[1]]
    exhausted = non_links < sum(positives) and sum(negatives) == non_links
    if negatives != positives and not exhausted:
        raise DataError(
            f"The split has {positives[0]} training and {positives[1]} test links but "
            f"{negatives[0]} and {negatives[1]} negatives: draw one negative for each link."
        )


def repeated_values(values: IntArray) -> IntArray:
    """The values that a sorted array holds more than once."""
    return np.unique(values[1:][values[1:] == values[:-1]])


def _refuse(offenders: IntArray, broken_rule: str) -> None:
    """Raise where there are offenders: a row of nodes, or the two rows of pairs."""
    if offenders.size:
        shown = offenders.tolist() if offenders.ndim == 1 else zip(*offenders.tolist(), strict=True)
        raise DataError(
            f"The split leaks or is damaged, because these {broken_rule}: {first_few(shown)}. "
            "Make it with node_split or link_split."
        )
