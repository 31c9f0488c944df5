"""Training and test sides: seeded splits of nodes and of links."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from xtcl.errors import DataError, UsageError, check_whole, is_number
from xtcl.graph.convert import as_graph, is_of
from xtcl.graph.graph import Graph
from xtcl.graph.pairs import (
    NodePair,
    canonical_pairs,
    count_pairs,
    draw_non_links,
    generator,
    pair_keys,
    pairs_among,
)
from xtcl.graph.split_check import (
    LINK_SIDES,
    check_no_leak,
    check_node_sides,
    check_pairs,
    mask_nodes,
)
from xtcl.graph.validation import IntArray, to_array

if TYPE_CHECKING:
    from torch_geometric.data import Data

__all__ = [
    "LinkSplit",
    "NodeSplit",
    "as_split",
    "as_test_side",
    "check_no_leak",
    "full_split",
    "link_split",
    "mask_nodes",
    "masks_of",
    "node_split",
    "pair_keys",
    "training_count",
]


@dataclass(frozen=True, eq=False)
class NodeSplit:
    """Which nodes train and which test; kept sorted and read-only. `test` may be empty.

    Refuses a node that is listed twice or is on both sides, and numbers below 0.
    `seed` is that of `node_split`, None where the nodes were not drawn.
    """

    train: IntArray
    test: IntArray
    seed: int | None = None

    def __post_init__(self) -> None:
        for side in ("train", "test"):
            object.__setattr__(self, side, _node_numbers(getattr(self, side)))
        check_node_sides(self.train, self.test)

    @property
    def kind(self) -> Literal["nodes"]:
        """The task this split is for."""
        return "nodes"

    def fingerprint(self) -> str:
        """SHA-256 of both sides: equal exactly where the splits are."""
        digest = hashlib.sha256(f"nodes {self.train.size} {self.test.size}".encode())
        digest.update(self.train.tobytes())
        digest.update(self.test.tobytes())
        return digest.hexdigest()

    def to_json(self) -> dict[str, Any]:
        """Plain lists and numbers, for `split.json`."""
        sides = {"train": self.train.tolist(), "test": self.test.tolist()}
        return {"kind": self.kind, "seed": self.seed, **sides}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> NodeSplit:
        """The split that `to_json` described."""
        if stored.get("kind") != "nodes" or not {"train", "test", "seed"} <= stored.keys():
            raise DataError('A node split needs "kind": "nodes", "seed", "train" and "test".')
        return cls(train=stored["train"], test=stored["test"], seed=_stored_seed(stored))

    @classmethod
    def from_masks(
        cls, train_mask: object, test_mask: object = None, *, graph: Any = None
    ) -> NodeSplit:
        """A split of masks: arrays or tensors of booleans [V], or of node numbers.

        Without `test_mask` the test side is unknown, and empty here. With `graph` the masks are
        checked against it, and nodes that it has no label for take no part.
        """
        known = None if graph is None else as_graph(graph, warn_masks=False)
        train = mask_nodes(train_mask, "train_mask", known)
        test = np.arange(0) if test_mask is None else mask_nodes(test_mask, "test_mask", known)
        masks = [np.asarray(to_array(each, "mask")) for each in (train_mask, test_mask)]
        if all(mask.dtype == bool for mask in masks) and len(masks[0]) != len(masks[1]):
            raise DataError(
                f"train_mask is for {len(masks[0])} nodes, and test_mask for {len(masks[1])}: give "
                "masks of the same graph."
            )
        return cls(train, test)

    @classmethod
    def from_pyg(cls, data: Data) -> NodeSplit:
        """The `train_mask` and, if there is one, the `test_mask` of a PyG `Data`.

        Nodes of its `val_mask` are on neither side, nor are nodes without a label.
        """
        _check_is_pyg(data, "node_split(graph)")
        split = masks_of(data, as_graph(data, warn_masks=False))
        if split is None:
            raise DataError("The data have no train_mask: make a split with node_split(data).")
        return split


def _check_is_pyg(data: object, remedy: str) -> None:
    if not is_of(data, "torch_geometric"):
        raise UsageError(
            f"from_pyg takes a PyG Data, not a {type(data).__name__}: make a split with {remedy}."
        )


def masks_of(data: Any, graph: Graph) -> NodeSplit | None:
    """The split given by the masks of a PyG `Data`; None where it has no `train_mask`.

    `graph` is the Graph made of `data`.
    """
    masks = {name: data.get(name) for name in ("train_mask", "test_mask")}
    if masks["train_mask"] is None:
        return None
    # Masks of PyG may be of bytes.
    train, test = (
        np.arange(0) if mask is None else mask_nodes(to_array(mask, name) != 0, name, graph)
        for name, mask in masks.items()
    )
    return NodeSplit(train, test)


def node_split(
    graph: Any, train: float | None = 0.1, *, per_class: int | None = None, seed: int = 0
) -> NodeSplit:
    """Split the labelled nodes at random; nodes without a label take no part.

    `graph` is a Graph or what `as_graph` makes one of; masks of a PyG `Data` are not read.

    With `train`, the first `round(train * n)` nodes of a random order train: the field's plain
    10/90 protocol, not stratified. A class left without a training node then swaps one in for a
    node of the class with most training nodes, as long as that one keeps another, so the total
    never changes. Where there are fewer training nodes than classes, lower class ids come first.

    With `per_class` (which overrides `train`), that many nodes of each class train. A class that
    has no more than that gives all but one, so that it is still tested, and always at least one.
    """
    graph = as_graph(graph, warn_masks=False)
    if graph.labels is None:
        raise DataError(
            f"Graph {graph.name!r} has no labels, and a node split needs them: give labels, or "
            "use link_split."
        )
    labelled = np.flatnonzero(graph.labels >= 0)
    if labelled.size < 2:
        raise DataError(
            f"Graph {graph.name!r} has {labelled.size} labelled node(s); a split needs at least 2."
        )
    order = generator(seed).permutation(labelled)
    if per_class is not None:
        training = _first_per_class(graph.labels[order], per_class)
    elif train is not None:
        training = np.arange(order.size) < training_count(order.size, train, "labelled nodes")
        _cover_classes(graph.labels[order], training)
    else:
        raise UsageError("Say how many nodes train: train=0.1 for a share, or per_class=20.")
    if training.all():
        raise DataError(
            f"per_class={per_class} leaves no test node, because every class of graph "
            f"{graph.name!r} has a single labelled node: label more nodes."
        )
    return NodeSplit(train=order[training], test=order[~training], seed=seed)


def _first_per_class(labels: IntArray, per_class: int) -> NDArray[np.bool_]:
    per_class = check_whole("per_class", per_class, 1)
    training = np.zeros(labels.size, dtype=np.bool_)
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        training[members[: min(per_class, max(1, members.size - 1))]] = True
    return training


def _cover_classes(labels: IntArray, training: NDArray[np.bool_]) -> None:
    """Swap one node of every uncovered class into `training`, in place."""
    for label in np.setdiff1d(labels, labels[training]):
        trained = np.bincount(labels[training])
        donor = int(trained.argmax())
        if trained[donor] < 2:
            return
        training[np.flatnonzero((labels == donor) & training)[-1]] = False
        training[np.flatnonzero(labels == label)[0]] = True


def _node_numbers(nodes: ArrayLike) -> IntArray:
    array = np.asarray(nodes)
    if array.ndim != 1 or (array.size and not np.issubdtype(array.dtype, np.integer)):
        raise DataError(
            f"A node split holds lists of node numbers, not {array.dtype} of shape "
            f"{list(array.shape)}."
        )
    numbers = np.sort(array.astype(np.int64))
    numbers.setflags(write=False)
    return numbers


@dataclass(frozen=True, eq=False)
class LinkSplit:
    """Which links train and which test, with non-links for each; canonical and read-only.

    `seed` is that of `link_split`, None where the links were not drawn.
    """

    train: NodePair
    test: NodePair
    train_negatives: NodePair
    test_negatives: NodePair
    num_nodes: int
    seed: int | None = None

    def __post_init__(self) -> None:
        for side in LINK_SIDES:
            pairs = canonical_pairs(getattr(self, side))
            pairs.setflags(write=False)
            object.__setattr__(self, side, pairs)

    @property
    def kind(self) -> Literal["links"]:
        """The task this split is for."""
        return "links"

    def fingerprint(self) -> str:
        """SHA-256 of all four sides: equal exactly where the splits are."""
        digest = hashlib.sha256(f"links {self.num_nodes}".encode())
        for side in LINK_SIDES:
            pairs = getattr(self, side)
            digest.update(f" {side} {pairs.shape[1]} ".encode())
            digest.update(pairs.tobytes())
        return digest.hexdigest()

    def training_graph(self, graph: Any) -> Graph:
        """`graph` with the training links only; attributes and labels stay."""
        whole = as_graph(graph, warn_masks=False)
        if whole.num_nodes != self.num_nodes:
            raise DataError(
                f"This split is for {self.num_nodes} nodes, and graph {whole.name!r} has "
                f"{whole.num_nodes}: use the graph it was made from."
            )
        return whole.with_edges(self.train)

    def to_json(self) -> dict[str, Any]:
        """Plain lists and numbers, for `split.json`."""
        sides = {side: getattr(self, side).tolist() for side in LINK_SIDES}
        return {"kind": self.kind, "seed": self.seed, "num_nodes": self.num_nodes, **sides}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> LinkSplit:
        """The split that `to_json` described."""
        needed = {"seed", "num_nodes", *LINK_SIDES}
        if stored.get("kind") != "links" or not needed <= stored.keys():
            raise DataError(f'A link split needs "kind": "links" and {", ".join(sorted(needed))}.')
        sides = {side: stored[side] for side in LINK_SIDES}
        return cls(**sides, num_nodes=int(stored["num_nodes"]), seed=_stored_seed(stored))

    @classmethod
    def from_pairs(
        cls,
        graph: Any,
        train: object,
        test: object,
        *,
        train_negatives: object = None,
        test_negatives: object = None,
        seed: int = 0,
    ) -> LinkSplit:
        """A split of given links [2, n], each in one direction or in both.

        Where there are fewer negatives than links, the missing ones are drawn as in `link_split`.
        Refuses what `check_no_leak` refuses.
        """
        whole = as_graph(graph, warn_masks=False)
        given = cls(
            train=_given_pairs(train, "train"),
            test=_given_pairs(test, "test"),
            train_negatives=_given_pairs(train_negatives, "train_negatives"),
            test_negatives=_given_pairs(test_negatives, "test_negatives"),
            num_nodes=whole.num_nodes,
        )
        check_pairs(whole, given)
        lacking = [
            max(0, links.shape[1] - negatives.shape[1])
            for links, negatives in (
                (given.train, given.train_negatives),
                (given.test, given.test_negatives),
            )
        ]
        taken = np.concatenate([whole.edges, given.train_negatives, given.test_negatives], axis=1)
        free = count_pairs(whole.num_nodes) - taken.shape[1]
        want = min(sum(lacking), free)
        drawn = draw_non_links(canonical_pairs(taken), whole.num_nodes, want, generator(seed))
        cut = round(want * lacking[0] / max(1, sum(lacking)))
        split = replace(
            given,
            train_negatives=np.concatenate([given.train_negatives, drawn[:, :cut]], axis=1),
            test_negatives=np.concatenate([given.test_negatives, drawn[:, cut:]], axis=1),
        )
        check_no_leak(whole, split)
        return split

    @classmethod
    def from_pyg(cls, train_data: Data, test_data: Data, *, seed: int = 0) -> LinkSplit:
        """The split of PyG's `RandomLinkSplit`: its first and its last result.

        Links are those of `edge_index` and of `edge_label_index` where `edge_label` is 1, and
        negatives those where it is 0; missing ones are drawn, see `from_pairs`. Links are
        undirected here, so the transform needs `is_undirected=True`.
        """
        for data in (train_data, test_data):
            _check_is_pyg(data, "link_split(graph)")
        train, train_negatives = _labelled_pairs(train_data)
        test, test_negatives = _labelled_pairs(test_data)
        # PyG draws ordered pairs, so a non-link may come once in each order, on different sides.
        keys = [pair_keys(each, train_data.num_nodes) for each in (train_negatives, test_negatives)]
        train_negatives = train_negatives[:, ~pairs_among(*keys)]
        known = as_graph(train_data, warn_masks=False)
        known = known.with_edges(np.concatenate([known.edges, train], axis=1))
        later = to_array(test_data.edge_index, "edge_index")  # with the links for validation
        return cls.from_pairs(
            known.with_edges(np.concatenate([known.edges, later, test], axis=1)),
            known.edges,
            test,
            train_negatives=train_negatives,
            test_negatives=test_negatives,
            seed=seed,
        )


def _stored_seed(stored: Mapping[str, Any]) -> int | None:
    return None if stored["seed"] is None else int(stored["seed"])


def _given_pairs(pairs: object, name: str) -> NodePair:
    """Pairs, each once; None is no pair."""
    if pairs is None:
        return canonical_pairs(np.empty((2, 0)))
    return np.unique(canonical_pairs(to_array(pairs, name)), axis=1)


def _labelled_pairs(data: Any) -> tuple[NodePair, NodePair]:
    """Links and non-links among the labelled pairs of a PyG `Data`."""
    pairs, labels = data.get("edge_label_index"), data.get("edge_label")
    if pairs is None or labels is None:
        raise DataError(
            "The data have no edge_label and edge_label_index: give what PyG's RandomLinkSplit "
            "made, or the links themselves to LinkSplit.from_pairs."
        )
    ends, linked = to_array(pairs, "edge_label_index"), to_array(labels, "edge_label") != 0
    return _given_pairs(ends[:, linked], "links"), _given_pairs(ends[:, ~linked], "non-links")


def link_split(graph: Any, train: float = 0.6, *, seed: int = 0) -> LinkSplit:
    """Split the undirected links at random, and give each side as many non-links.

    Negatives are uniform over the non-links of the *whole* graph, different from each other and
    between the sides. A graph so dense that its non-links run out shares all of them in the
    proportion of the links. Cost O(E log E); see `draw_non_links`. `graph` is a Graph or what
    `as_graph` makes one of.
    """
    graph = as_graph(graph, warn_masks=False)
    if graph.num_edges < 2:
        raise DataError(
            f"Graph {graph.name!r} has {graph.num_edges} link(s); a link split needs at least 2."
        )
    cut = training_count(graph.num_edges, train, "links")
    non_links = count_pairs(graph.num_nodes) - graph.num_edges
    if non_links < 2:
        raise DataError(
            f"Graph {graph.name!r} is complete or nearly so: {non_links} of its pairs of nodes "
            "have no link, and training and test need at least one each."
        )
    rng = generator(seed)
    links = graph.edges[:, rng.permutation(graph.num_edges)]
    want = min(graph.num_edges, non_links)
    negatives = draw_non_links(graph.edges, graph.num_nodes, want, rng)
    share = min(max(round(want * cut / graph.num_edges), 1), want - 1)
    return LinkSplit(
        train=links[:, :cut],
        test=links[:, cut:],
        train_negatives=negatives[:, :share],
        test_negatives=negatives[:, share:],
        num_nodes=graph.num_nodes,
        seed=seed,
    )


def training_count(total: int, train: float, what: str) -> int:
    """How many of `total` things train; refuses a share that leaves either side empty."""
    if not is_number(train) or not 0 < train < 1:
        raise UsageError(f"train={train} is not a share: give a number between 0 and 1, say 0.6.")
    count = round(train * total)
    if not 0 < count < total:
        side = "test" if count else "training"
        raise DataError(
            f"train={train} of {total} {what} leaves no {side} {what}: choose another share."
        )
    return count


def as_split(given: Any, graph: Graph, task: str) -> NodeSplit | LinkSplit:
    """A split as it is, or one whose training side is a mask or an array of node numbers."""
    if isinstance(given, NodeSplit | LinkSplit):
        return given
    if task == "links":
        raise UsageError(
            f"{type(given).__name__} is no split of links: make one with link_split(graph), "
            "LinkSplit.from_pairs or LinkSplit.from_pyg."
        )
    return NodeSplit(mask_nodes(given, "train_mask", graph), np.arange(0))


def as_test_side(given: Any, graph: Graph, task: str) -> NodeSplit | LinkSplit:
    """A split as it is, or one whose test side is a mask, node numbers, or that of a PyG `Data`.

    Of a `Data`, these are the nodes of `test_mask`, or the pairs of `edge_label_index`.
    """
    if isinstance(given, NodeSplit | LinkSplit):
        return given
    none = np.arange(0)
    if task == "links":
        if not is_of(given, "torch_geometric"):
            raise UsageError(
                f"{type(given).__name__} is no split of links: give one of link_split(graph), or "
                "the test data of PyG's RandomLinkSplit."
            )
        test, negatives = _labelled_pairs(given)
        empty = canonical_pairs(none)
        return LinkSplit(empty, test, empty, negatives, num_nodes=graph.num_nodes)
    if is_of(given, "torch_geometric"):
        given = given.get("test_mask")
        if given is None:
            raise UsageError("The data have no test_mask: give a split, or the nodes to score on.")
        given = to_array(given, "test_mask") != 0
    return NodeSplit(none, mask_nodes(given, "test_mask", graph))


def full_split(graph: Graph, task: str, seed: int = 0) -> NodeSplit | LinkSplit:
    """All labelled nodes, or all links with as many non-links, on the training side."""
    none = np.zeros((2, 0), dtype=np.int64)
    if task == "links":
        non_links = count_pairs(graph.num_nodes) - graph.num_edges
        if graph.num_edges < 2 or non_links < 2:
            raise DataError(
                f"Graph '{graph.name}' has {graph.num_edges} links and {non_links} pairs without "
                "one; link prediction needs at least two of each."
            )
        number = min(graph.num_edges, non_links)
        negatives = draw_non_links(graph.edges, graph.num_nodes, number, generator(seed))
        return LinkSplit(graph.edges, none, negatives, none, graph.num_nodes, seed)
    labelled = np.arange(0) if graph.labels is None else np.flatnonzero(graph.labels >= 0)
    return NodeSplit(labelled, none[0], seed)
