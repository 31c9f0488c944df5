"""Graphs that are made hard: links that lie, and two tasks on one graph."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from xtcl.graph.datasets.synthetic import planted_links
from xtcl.graph.graph import Graph
from xtcl.graph.pairs import NodePair, canonical_pairs, draw_non_links, generator
from xtcl.relations.custom import MatrixRelation

SECOND_KIND = "second-kind"
"""The relation that the second kind of links of `two_tasks` is given as."""


def with_random_links(graph: Graph, *, seed: int = 0) -> Graph:
    r"""The graph with as many random links added as it has.

    .. math:: E' = E \cup R, \qquad |R| = |E|, \qquad
              R \text{ uniform among the pairs of nodes without a link}

    Attributes and labels stay. The links of one seed are always the same. Cost O(E log E).
    """
    drawn = draw_non_links(graph.edges, graph.num_nodes, graph.num_edges, generator(seed))
    edges = canonical_pairs(np.concatenate([graph.edges, drawn], axis=1))
    return replace(graph, edges=edges, name=f"{graph.name}-noisy")


def two_tasks(
    num_nodes: int = 2000,
    *,
    num_classes: int = 5,
    num_words: int = 200,
    mean_degree: float = 10.0,
    second_degree: float = 4.0,
    other: float = 0.8,
    own: float = 0.1,
    precision: float = 0.7,
    signal: float = 0.6,
    seed: int = 0,
) -> tuple[Graph, MatrixRelation]:
    r"""A graph whose links mostly follow another labeling, and links of a second kind.

    Two labelings a and b are independent, each with classes of (almost) equal size; a is ours, and
    b is in nothing but the links. Of the V `mean_degree` / 2 links of the graph a share `other`
    joins nodes alike in b, a share `own` nodes alike in a, and the rest nodes that differ in b. Of
    the V `second_degree` / 2 links of the second kind a share `precision` joins nodes alike in a,
    and the rest nodes that differ in a:

    .. math:: S[u, v] = 1 \text{ where a link of the second kind joins u and v, else } 0

    Word j belongs to class j mod C, and a node has it with probability 0.05, or 0.05 e^signal where
    its own class is that one. A pair that is drawn twice is one link. Cost O(V C + E log E).
    """
    rng = generator(seed)
    ours, theirs = (rng.permutation(np.arange(num_nodes) % num_classes) for _ in range(2))

    def draw(labels: np.ndarray, degree: float, share: float, *, alike: bool) -> NodePair:
        count = round(share * num_nodes * degree / 2)
        return planted_links(labels, num_classes, count, same_class=alike, rng=rng)

    links = [
        draw(theirs, mean_degree, other, alike=True),
        draw(ours, mean_degree, own, alike=True),
        draw(theirs, mean_degree, 1 - other - own, alike=False),
    ]
    second = [
        draw(ours, second_degree, precision, alike=True),
        draw(ours, second_degree, 1 - precision, alike=False),
    ]
    words = np.arange(num_words)
    rates = np.full((num_classes, num_words), _RATE)
    rates[words % num_classes, words] = _RATE * np.exp(signal)
    attributes = rng.random((num_nodes, num_words)) < rates[ours]
    graph = Graph.from_arrays(
        attributes.astype(np.float32), np.concatenate(links, axis=1), ours, name="two-tasks"
    )
    return graph, _as_relation(np.concatenate(second, axis=1), num_nodes)


_RATE = 0.05
"""How often a node has a word that is not of its class."""


def _as_relation(pairs: NodePair, num_nodes: int) -> MatrixRelation:
    ends = np.concatenate([pairs, pairs[::-1]], axis=1)
    ones = np.ones(ends.shape[1], dtype=np.float32)
    matrix = sp.csr_array((ones, (ends[0], ends[1])), shape=(num_nodes, num_nodes))
    return MatrixRelation(matrix, SECOND_KIND, "Link of the Second Kind")


def with_second_kind(graph: Graph, second: MatrixRelation) -> Graph:
    """The graph with both kinds of links, which it no longer tells apart."""
    rows, columns = second.similarities.nonzero()
    edges = np.concatenate([graph.edges, np.stack([rows, columns])], axis=1)
    return Graph.from_arrays(
        graph.attributes, edges, graph.labels, classes=graph.classes, name=f"{graph.name}-all-links"
    )
