"""The rules of a split, such as that nothing is on both its training and its test side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from xtcl.errors import DataError, first_few
from xtcl.graph.convert import as_graph
from xtcl.graph.graph import Graph
from xtcl.graph.pairs import NodePair, count_pairs, pair_keys, pairs_among, unpack_keys
from xtcl.graph.validation import IntArray

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
    graph = as_graph(graph, warn_masks=False)
    if split.kind == "nodes":
        _check_nodes(graph, split)
    else:
        _check_links(graph, split)


def _check_nodes(graph: Graph, split: NodeSplit) -> None:
    if graph.labels is None:
        raise DataError(f"Graph {graph.name!r} has no labels, so a node split cannot be for it.")
    for side, nodes in (("training", split.train), ("test", split.test)):
        outside = nodes[(nodes < 0) | (nodes >= graph.num_nodes)]
        _refuse(outside, f"{side} nodes are not in the graph of {graph.num_nodes} nodes")
        _refuse(repeated_values(nodes), f"{side} nodes are listed twice")
        _refuse(nodes[graph.labels[nodes] < 0], f"{side} nodes have no label")
    shared = split.test[pairs_among(split.test, split.train)]
    _refuse(shared, "nodes are both training and test nodes")


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
