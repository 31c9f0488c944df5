"""Figures about the data of a run, and warnings about what looks wrong with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from xtcl.errors import first_few
from xtcl.graph.graph import Graph
from xtcl.graph.tables.checks import data_warnings
from xtcl.graph.validation import Attributes
from xtcl.report.facts import RunFacts, escape_text

MIN_TRAINED_LABELS = 5
"""A class with fewer training labels is rare: too few nodes to learn from."""

_ROWS_LISTED = 30
"""Classes and columns that are listed."""


@dataclass(frozen=True)
class ClassSize:
    """Numbers of labels of a class: those trained on, and those held out."""

    name: str
    trained: int
    tested: int


@dataclass(frozen=True)
class DataHealth:
    """Figures about the graph, and sentences about what looks wrong or was repaired.

    `homophily` is the share of links inside a class, of those with two known ends, and
    `expected_homophily` what it would be if links did not depend on classes. `rare_classes` have
    very few labels to train on, `unlisted_classes` is the number of classes not in `classes`.
    """

    nodes: int
    links: int
    mean_links: float
    attributes: int
    without_attributes: int
    components: int
    largest: int
    isolated: int
    labelled: int
    classes: tuple[ClassSize, ...]
    unlisted_classes: int
    rare_classes: tuple[ClassSize, ...]
    homophily: float | None
    expected_homophily: float | None
    warnings: tuple[str, ...]
    notes: tuple[str, ...]


def data_health(facts: RunFacts, task: str) -> DataHealth:
    """Figures of the graph with all known links and labels, also those of the test. O(V + E)."""
    graph, truth = facts.graph, facts.truth
    number, member = connected_components(graph.adjacency, directed=False)
    trained, tested = (
        np.bincount(truth[nodes], minlength=len(facts.classes))
        for nodes in (facts.trained, facts.tested)
    )
    sizes = [
        ClassSize(*of) for of in zip(facts.classes, trained.tolist(), tested.tolist(), strict=True)
    ]
    sizes.sort(key=lambda size: -(size.trained + size.tested))
    # A run for links is not trained on labels, so no class is rare there.
    rare = [size for size in sizes if size.trained < MIN_TRAINED_LABELS and len(facts.trained)]
    homophily, expected = _homophily(graph, truth)
    return DataHealth(
        nodes=graph.num_nodes,
        links=graph.num_edges,
        mean_links=2 * graph.num_edges / graph.num_nodes,
        attributes=graph.num_attributes,
        without_attributes=_count_blank(graph.attributes) if graph.has_attributes else 0,
        components=int(number),
        largest=int(np.bincount(member).max()),
        isolated=int((graph.degrees == 0).sum()),
        labelled=int((truth >= 0).sum()),
        classes=tuple(sizes[:_ROWS_LISTED]),
        unlisted_classes=max(0, len(sizes) - _ROWS_LISTED),
        rare_classes=tuple(rare),
        homophily=homophily,
        expected_homophily=expected,
        warnings=(*data_warnings(_with_test_labels(facts), task), *_rare_class_warnings(rare)),
        notes=_notes(graph),
    )


def _rare_class_warnings(sizes: Sequence[ClassSize]) -> tuple[str, ...]:
    """Sentences about the rare classes, each with a remedy."""
    none = [f"“{size.name}”" for size in sizes if size.trained == 0]
    single = [f"“{size.name}”" for size in sizes if size.trained == 1]
    few = [f"“{size.name}” ({size.trained})" for size in sizes if size.trained > 1]
    sentences = []
    if none:
        sentences.append(
            f"{_classes(none)} had no label to train on: no node can be found to be of it. Label "
            "some nodes of it, or train on a larger share."
        )
    if single:
        sentences.append(
            f"{_classes(single)} was trained on a single label: predictions of it depend on one "
            "node. Label more, or merge the class with another."
        )
    if few:
        sentences.append(
            f"{_classes(few)} was trained on fewer than {MIN_TRAINED_LABELS} labels: predictions "
            "of it are uncertain. Label more."
        )
    return tuple(sentences)


def _classes(names: Sequence[str]) -> str:
    return f"Class {names[0]}" if len(names) == 1 else f"Each of the classes {first_few(names)}"


def _with_test_labels(facts: RunFacts) -> Graph:
    """The graph as it was read, with the labels that were held out."""
    known = (facts.truth >= 0).any()
    return replace(facts.graph, labels=facts.truth) if known else facts.graph


def _count_blank(attributes: Attributes) -> int:
    """The number of rows that are all 0."""
    filled = (
        attributes.count_nonzero(axis=1)
        if isinstance(attributes, sparse.csr_array)
        else np.count_nonzero(attributes, axis=1)
    )
    return int((filled == 0).sum())


def _notes(graph: Graph) -> tuple[str, ...]:
    """Sentences about repairs of the data, and about columns with missing values."""
    sentences = graph.repairs.sentences()
    gaps = [] if graph.encoding is None else [c for c in graph.encoding.columns if c.missing]
    for column in gaps[:_ROWS_LISTED]:
        sentences.append(
            f"Column “{escape_text(column.name)}” has no value for {column.missing:,} node(s)."
        )
    return tuple(sentences)


def _homophily(graph: Graph, truth: np.ndarray) -> tuple[float | None, float | None]:
    ends = truth[graph.edges]
    known = ends[:, (ends >= 0).all(axis=0)]
    if not known.shape[1]:
        return None, None
    # Expected: both ends are drawn independently, in proportion to their numbers of links.
    shares = np.bincount(known.ravel()) / known.size
    return float((known[0] == known[1]).mean()), float((shares**2).sum())
