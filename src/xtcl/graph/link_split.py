"""Training and test links, each with as many non-links."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from xtcl.errors import DataError
from xtcl.graph.draw import generator, training_count
from xtcl.graph.graph import Graph
from xtcl.graph.pairs import Pairs, canonical_pairs, count_pairs, draw_non_links

SIDES = ("train", "test", "train_negatives", "test_negatives")


@dataclass(frozen=True, eq=False)
class LinkSplit:
    """Which links train and which test, with non-links for each; canonical and read-only."""

    train: Pairs
    test: Pairs
    train_negatives: Pairs
    test_negatives: Pairs
    num_nodes: int
    seed: int

    def __post_init__(self) -> None:
        for side in SIDES:
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
        for side in SIDES:
            pairs = getattr(self, side)
            digest.update(f" {side} {pairs.shape[1]} ".encode())
            digest.update(pairs.tobytes())
        return digest.hexdigest()

    def training_graph(self, graph: Graph) -> Graph:
        """`graph` with the training links only; attributes and labels stay."""
        if graph.num_nodes != self.num_nodes:
            raise DataError(
                f"This split is for {self.num_nodes} nodes, and graph {graph.name!r} has "
                f"{graph.num_nodes}: use the graph it was made from."
            )
        return graph.with_edges(self.train)

    def to_json(self) -> dict[str, Any]:
        """Plain lists and numbers, for `split.json`."""
        sides = {side: getattr(self, side).tolist() for side in SIDES}
        return {"kind": self.kind, "seed": self.seed, "num_nodes": self.num_nodes, **sides}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> LinkSplit:
        """The split that `to_json` described."""
        needed = {"seed", "num_nodes", *SIDES}
        if stored.get("kind") != "links" or not needed <= stored.keys():
            raise DataError(f'A link split needs "kind": "links" and {", ".join(sorted(needed))}.')
        sides = {side: stored[side] for side in SIDES}
        return cls(**sides, num_nodes=int(stored["num_nodes"]), seed=int(stored["seed"]))


def link_split(graph: Graph, train: float = 0.6, *, seed: int = 0) -> LinkSplit:
    """Split the undirected links at random, and give each side as many non-links.

    Negatives are uniform over the non-links of the *whole* graph, different from each other and
    between the sides. A graph so dense that its non-links run out shares all of them in the
    proportion of the links. Cost O(E log E); see `draw_non_links`.
    """
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
