"""What looks wrong with a graph before anything is learned from it."""

from __future__ import annotations

import numpy as np

from xtcl.errors import first_few
from xtcl.graph.graph import Graph
from xtcl.graph.tables.leaks import suspects

MANY_ISOLATED = 0.2
LARGEST_CLASS = 0.95
FEW_LABELS = 20


LONGEST_NAME = 80


def concerns(graph: Graph, task: str = "nodes") -> list[str]:
    """Sentences, each with a remedy; none where nothing looks wrong for the task.

    Only `nodes` reads labels, and what columns say of them.
    """
    found = [*_of_structure(graph), *_of_cells(graph)]
    return [*found, *_of_labels(graph), *_of_columns(graph)] if task == "nodes" else found


def _of_structure(graph: Graph) -> list[str]:
    found = []
    nodes, isolated = graph.num_nodes, int((graph.degrees == 0).sum())
    if isolated > MANY_ISOLATED * nodes:
        found.append(
            f"{isolated:,} of {nodes:,} nodes ({isolated / nodes:.0%}) have no link: for them only "
            "attributes speak. Are links missing?"
        )
    if not graph.has_attributes:
        found.append("There are no attributes: only links speak. Add columns that describe nodes.")
    return found


def _of_cells(graph: Graph) -> list[str]:
    columns = () if graph.encoding is None else graph.encoding.columns
    return [column.doubt for column in columns if column.doubt]


def _of_labels(graph: Graph) -> list[str]:
    if graph.labels is None:
        return ["There are no labels: only links can be predicted. Name a column with --label."]
    sizes = np.bincount(graph.labels[graph.labels >= 0], minlength=graph.num_classes)
    labelled, found = int(sizes.sum()), []
    single = [_named(graph.classes[code]) for code in np.flatnonzero(sizes == 1)]
    if 2 * graph.num_classes >= labelled:
        found.append(
            f"The labels are nearly unique: {graph.num_classes:,} classes for {labelled:,} "
            "labelled nodes. Is this the right column?"
        )
    elif single:
        found.append(
            f"{len(single)} class(es) have a single node: {first_few(single)}. It can be trained "
            "on or tested, not both; label more, or merge the class."
        )
    if labelled < FEW_LABELS:
        found.append(f"Only {labelled} nodes have a label: scores will say little. Label more.")
    if sizes.max() > LARGEST_CLASS * labelled:
        largest = graph.classes[int(sizes.argmax())]
        found.append(
            f"{sizes.max() / labelled:.1%} of the labels are {_named(largest)}: always saying so "
            "would score as much. Look at more than accuracy."
        )
    if -1 in graph.classes:
        found.append("-1 is a class of its own here; leave the cell empty where it means unknown.")
    return found


def _of_columns(graph: Graph) -> list[str]:
    return [
        f"Column {_named(suspect.column)} alone tells {suspect.share:.1%} of the labels: is it "
        "known before the label is, or is it the label in disguise? If so, remove it."
        for suspect in suspects(graph)
    ]


def _named(name: object) -> str:
    return f"{name!r:.{LONGEST_NAME}}"
