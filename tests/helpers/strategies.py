"""Hypothesis strategies for small graphs of every awkward shape, and views of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp
from hypothesis import strategies as st

from xtcl.graph.graph import Graph
from xtcl.relations.view import TrainingView

SHAPES = ("empty", "complete", "star", "path", "cycle", "random", "dense", "cliques", "isolated")
ATTRIBUTES = ("none", "zeros", "counts", "signed", "some zero rows")
LABELS = ("none", "single", "some unknown", "many")


def links_of(shape: str, count: int, rng: np.random.Generator) -> list[tuple[int, int]]:
    """Links of a graph with `count` nodes, with the nodes numbered at random."""
    pairs = [(u, v) for u in range(count) for v in range(u + 1, count)]
    half = count // 2
    chosen = {
        "empty": [],
        "complete": pairs,
        "star": [(0, v) for v in range(1, count)],
        "path": [(v, v + 1) for v in range(count - 1)],
        "cycle": [(v, (v + 1) % count) for v in range(count)] if count > 2 else [],
        "random": [pair for pair in pairs if rng.random() < 2.5 / count],
        "dense": [pair for pair in pairs if rng.random() < 0.6],
        "cliques": [(u, v) for u, v in pairs if (u < half) == (v < half)],
        "isolated": [(u, v) for u, v in pairs if v < half and rng.random() < 0.5],
    }[shape]
    number = rng.permutation(count)
    return [(int(number[u]), int(number[v])) for u, v in chosen]


def attributes_of(kind: str, count: int, rng: np.random.Generator) -> np.ndarray:
    """Attributes of `count` nodes."""
    columns = 0 if kind == "none" else int(rng.integers(1, 6))
    values = {
        "counts": rng.integers(0, 3, size=(count, columns)),
        "signed": rng.normal(size=(count, columns)),
        "some zero rows": rng.normal(size=(count, columns)) * (rng.random((count, 1)) < 0.5),
    }
    return np.asarray(values.get(kind, np.zeros((count, columns))), dtype=np.float32)


def labels_of(kind: str, count: int, rng: np.random.Generator) -> np.ndarray | None:
    """Labels of `count` nodes, -1 where unknown."""
    if kind == "none":
        return None
    labels = rng.integers(0, 1 if kind == "single" else 4, size=count)
    return np.where(rng.random(count) < 0.3, -1, labels) if kind == "some unknown" else labels


def make_graph(
    count: int, seed: int, shape: str = "random", attributes: str = "counts", labels: str = "many"
) -> Graph:
    """The graph that these five parameters stand for."""
    rng = np.random.default_rng(seed)
    links = np.array(links_of(shape, count, rng), dtype=np.int64).reshape(-1, 2).T
    if attributes == "none" and not links.size:
        attributes = "zeros"  # a graph has attributes or links
    return Graph.from_arrays(
        attributes=attributes_of(attributes, count, rng),
        edges=links,
        labels=labels_of(labels, count, rng),
        num_nodes=count,
    )


@st.composite
def graphs(
    draw: st.DrawFn,
    *,
    min_nodes: int = 2,
    max_nodes: int = 18,
    shapes: Sequence[str] = SHAPES,
    attributes: Sequence[str] = ATTRIBUTES,
    labels: Sequence[str] = LABELS,
) -> Graph:
    """A small graph of some shape, with some kind of attributes and labels."""
    return make_graph(
        draw(st.integers(min_nodes, max_nodes)),
        draw(st.integers(0, 2**20)),
        draw(st.sampled_from(shapes)),
        draw(st.sampled_from(attributes)),
        draw(st.sampled_from(labels)),
    )


@st.composite
def views(
    draw: st.DrawFn,
    *,
    min_nodes: int = 2,
    max_nodes: int = 18,
    shapes: Sequence[str] = SHAPES,
    attributes: Sequence[str] = ATTRIBUTES,
    labels: Sequence[str] = LABELS,
) -> TrainingView:
    """A view of a small graph that knows the labels of some of the nodes."""
    graph = draw(
        graphs(
            min_nodes=min_nodes,
            max_nodes=max_nodes,
            shapes=shapes,
            attributes=attributes,
            labels=labels,
        )
    )
    known = draw(st.lists(st.integers(0, graph.num_nodes - 1), unique=True))
    return TrainingView.of(graph, labelled=known)


def make_view(
    count: int,
    seed: int,
    shape: str = "random",
    attributes: str = "counts",
    labels: str = "many",
    known: float = 0.6,
) -> TrainingView:
    """A view of `make_graph(...)` that knows the labels of a share `known` of the nodes."""
    graph = make_graph(count, seed, shape, attributes, labels)
    labelled = np.flatnonzero(np.random.default_rng(seed).random(count) < known)
    return TrainingView.of(graph, labelled=labelled)


def random_links(num_nodes: int, density: float, seed: int = 0) -> sp.csr_array:
    """Links in both directions, none from a node to itself."""
    drawn = np.triu(np.random.default_rng(seed).random((num_nodes, num_nodes)) < density, 1)
    return sp.csr_array(drawn | drawn.T).astype(np.float32)
