"""What about the data should make a reader doubt some answers."""

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

FEW_TRAINED = 5
"""Labels below which what is learned about a class rests on the oddities of a few nodes."""


def of_scarce_classes(sizes: Sequence[ClassSize]) -> tuple[str, ...]:
    """Sentences with a remedy about classes with fewer labels than `FEW_TRAINED`."""
    none = [f"“{size.name}”" for size in sizes if size.trained == 0]
    single = [f"“{size.name}”" for size in sizes if size.trained == 1]
    few = [f"“{size.name}” ({size.trained})" for size in sizes if size.trained > 1]
    told = []
    if none:
        told.append(
            f"{_classes(none)} had no label to train on: no node can be found to be of it. Label "
            "some nodes of it, or train on a larger share."
        )
    if single:
        told.append(
            f"{_classes(single)} was trained on a single label: what is said of it rests on one "
            "node. Label more, or merge the class with another."
        )
    if few:
        told.append(
            f"{_classes(few)} was trained on fewer than {FEW_TRAINED} labels: take what is said of "
            "it with care. Label more."
        )
    return tuple(told)


def _classes(names: Sequence[str]) -> str:
    return f"Class {names[0]}" if len(names) == 1 else f"Each of the classes {first_few(names)}"


LISTED = 30
"""Classes and columns that are listed."""


@dataclass(frozen=True)
class ClassSize:
    """Labels of a class: those trained on, and those held out."""

    name: str
    trained: int
    tested: int


@dataclass(frozen=True)
class DataHealth:
    """What the graph is like.

    `homophily` is the share of links inside a class, of those whose ends are both known;
    `by_chance` what it would be if links ignored classes; `scarce` are the classes with very
    few labels to train on, `doubts` what looks wrong.
    """

    nodes: int
    links: int
    mean_links: float
    attributes: int
    blank: int
    components: int
    largest: int
    isolated: int
    labelled: int
    classes: tuple[ClassSize, ...]
    more_classes: int
    scarce: tuple[ClassSize, ...]
    homophily: float | None
    by_chance: float | None
    doubts: tuple[str, ...]
    notes: tuple[str, ...]


def data_health(facts: RunFacts, task: str) -> DataHealth:
    """Of the graph with all links and all labels that the run knows of. O(V + E)."""
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
    # A run for links reads no labels, and none of its classes is scarce for that.
    scarce = [size for size in sizes if size.trained < FEW_TRAINED and len(facts.trained)]
    homophily, by_chance = _homophily(graph, truth)
    return DataHealth(
        nodes=graph.num_nodes,
        links=graph.num_edges,
        mean_links=2 * graph.num_edges / graph.num_nodes,
        attributes=graph.num_attributes,
        blank=_blank(graph.attributes) if graph.has_attributes else 0,
        components=int(number),
        largest=int(np.bincount(member).max()),
        isolated=int((graph.degrees == 0).sum()),
        labelled=int((truth >= 0).sum()),
        classes=tuple(sizes[:LISTED]),
        more_classes=max(0, len(sizes) - LISTED),
        scarce=tuple(scarce),
        homophily=homophily,
        by_chance=by_chance,
        doubts=(*data_warnings(_labelled(facts), task), *of_scarce_classes(scarce)),
        notes=_notes(graph),
    )


def _labelled(facts: RunFacts) -> Graph:
    """The graph as it was read: with the labels that were held out."""
    known = (facts.truth >= 0).any()
    return replace(facts.graph, labels=facts.truth) if known else facts.graph


def _blank(attributes: Attributes) -> int:
    """Rows without a value other than 0."""
    filled = (
        attributes.count_nonzero(axis=1)
        if isinstance(attributes, sparse.csr_array)
        else np.count_nonzero(attributes, axis=1)
    )
    return int((filled == 0).sum())


def _notes(graph: Graph) -> tuple[str, ...]:
    """What was repaired in the data, and which columns had gaps."""
    told = graph.repairs.sentences()
    gaps = [] if graph.encoding is None else [c for c in graph.encoding.columns if c.missing]
    for column in gaps[:LISTED]:
        told.append(
            f"Column “{escape_text(column.name)}” has no value for {column.missing:,} node(s)."
        )
    return tuple(told)


def _homophily(graph: Graph, truth: np.ndarray) -> tuple[float | None, float | None]:
    ends = truth[graph.edges]
    known = ends[:, (ends >= 0).all(axis=0)]
    if not known.shape[1]:
        return None, None
    # By chance: both ends drawn by their numbers of links, as the links have them.
    shares = np.bincount(known.ravel()) / known.size
    return float((known[0] == known[1]).mean()), float((shares**2).sum())
