"""Seeded synthetic graphs: a random one without structure, and one with planted classes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from xtcl.errors import UsageError
from xtcl.graph.graph import Graph
from xtcl.graph.pairs import (
    NodePair,
    count_pairs,
    distinct,
    draw_non_links,
    generator,
    pair_keys,
    unpack_keys,
)

_BASE_RATE = 0.1
"""How often a node of the block model has a word that is not its class's."""


def random_graph(
    num_nodes: int, *, num_classes: int = 7, num_attributes: int = 64, seed: int = 0
) -> Graph:
    """The graph of the paper's timing figure: 2V random links, labels and attributes at random.

    The links are different and uniform over all pairs (as many as exist, where that is fewer),
    labels uniform, attributes uniform in [0, 1).
    """
    _check_sizes(num_nodes, num_classes, num_attributes)
    rng = generator(seed)
    none = np.empty((2, 0), dtype=np.int64)
    links = draw_non_links(none, num_nodes, min(2 * num_nodes, count_pairs(num_nodes)), rng)
    return Graph.from_arrays(
        rng.random((num_nodes, num_attributes), dtype=np.float32),
        links,
        rng.integers(num_classes, size=num_nodes),
        classes=_class_names(num_classes),
        name=f"random-{num_nodes}",
    )


def block_model(
    num_nodes: int = 300,
    *,
    num_classes: int = 4,
    num_attributes: int = 32,
    mean_degree: float = 6.0,
    homophily: float = 0.8,
    attribute_signal: float = 1.0,
    seed: int = 0,
) -> Graph:
    """An attributed block model with planted classes of (almost) equal size.

    It has `V * mean_degree / 2` different links, a share `homophily` of them uniform over the pairs
    inside a class and the others over the pairs between classes (fewer, where a kind of pair runs
    out). Attributes are a 0/1 bag of words. Word j belongs to class `j mod num_classes`, and a node
    has it with probability 0.1, or `0.1 * exp(attribute_signal)` (at most 0.9) where the class is
    its own; with a signal of 0 they are noise. Cost O(E log E + V * num_attributes), never V x V.
    """
    _check_sizes(num_nodes, num_classes, num_attributes)
    if not 0 <= homophily <= 1 or mean_degree < 0:
        raise UsageError(
            f"homophily={homophily} must be in [0, 1] and mean_degree={mean_degree} at least 0."
        )
    rng = generator(seed)
    labels = rng.permutation(np.arange(num_nodes) % num_classes)
    rates = np.full((num_classes, num_attributes), _BASE_RATE, dtype=np.float32)
    words = np.arange(num_attributes)
    rates[words % num_classes, words] = min(_BASE_RATE * float(np.exp(attribute_signal)), 0.9)
    total = round(num_nodes * mean_degree / 2)
    inside = round(homophily * total)
    links = [
        planted_links(labels, num_classes, count, same_class=same, rng=rng)
        for same, count in ((True, inside), (False, total - inside))
    ]
    uniform = rng.random((num_nodes, num_attributes), dtype=np.float32)
    return Graph.from_arrays(
        (uniform < rates[labels]).astype(np.float32),
        np.concatenate(links, axis=1),
        labels,
        classes=_class_names(num_classes),
        name=f"blocks-{num_nodes}",
    )


def planted_links(
    labels: NDArray[np.int64],
    num_classes: int,
    want: int,
    *,
    same_class: bool,
    rng: np.random.Generator,
) -> NodePair:
    """Different uniform pairs inside classes, or between them.

    The second end is drawn from the wanted side directly: nodes are listed by class, so a class is
    a run of that list and its complement is the list without the run.
    """
    num_nodes = labels.size
    sizes = np.bincount(labels, minlength=num_classes)
    within = int((sizes * (sizes - 1) // 2).sum())
    possible = within if same_class else count_pairs(num_nodes) - within
    by_class = np.argsort(labels, kind="stable")
    starts = np.cumsum(sizes) - sizes
    # Uniform over ordered pairs: the first end's class weighs as many of them as start in it.
    weights = sizes * (sizes if same_class else num_nodes - sizes)

    def draw(count: int) -> NDArray[np.int64]:
        label = rng.choice(num_classes, size=count, p=weights / weights.sum())
        first = by_class[starts[label] + rng.integers(sizes[label])]
        if same_class:
            place = starts[label] + rng.integers(sizes[label])
        else:
            place = rng.integers(num_nodes - sizes[label])
            place += np.where(place >= starts[label], sizes[label], 0)
        ends = np.sort(np.stack([first, by_class[place]]), axis=0)
        return pair_keys(ends[:, ends[0] != ends[1]], num_nodes)

    return unpack_keys(distinct(draw, min(want, possible)), num_nodes)


def _check_sizes(num_nodes: int, num_classes: int, num_attributes: int) -> None:
    if num_nodes < 2 or num_classes < 1 or num_attributes < 1:
        raise UsageError(
            f"num_nodes={num_nodes} must be at least 2, and num_classes={num_classes} and "
            f"num_attributes={num_attributes} at least 1."
        )


def _class_names(num_classes: int) -> tuple[str, ...]:
    return tuple(f"class {label}" for label in range(num_classes))
