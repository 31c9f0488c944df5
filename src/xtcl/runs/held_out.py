"""The labels of the test nodes: kept beside the split for the report, and read by nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from xtcl.errors import DataError
from xtcl.files import atomic_path
from xtcl.graph.graph import Graph
from xtcl.graph.link_split import LinkSplit
from xtcl.graph.node_split import NodeSplit

FILE = "test_labels.json"


@contextmanager
def refusing_file(path: Path) -> Iterator[None]:
    """Turn contents of the wrong kind into a sentence that names the file."""
    try:
        yield
    except (AttributeError, LookupError, OSError, TypeError, ValueError) as broken:
        raise DataError(
            f"'{path}' cannot be read ({type(broken).__name__}: {broken}); fit and save the model "
            "again."
        ) from broken


def held_out_labels(graph: Graph, split: NodeSplit | LinkSplit | None) -> np.ndarray | None:
    """Label codes of the test nodes in the order of the split; None for links, or without one."""
    if not isinstance(split, NodeSplit) or graph.labels is None:
        return None
    return np.asarray(graph.labels[split.test])


def write_held_out(folder: Path, labels: np.ndarray | None) -> None:
    """Write the labels; without any, remove those of an earlier run."""
    path = folder / FILE
    if labels is None:
        path.unlink(missing_ok=True)
        return
    with atomic_path(path) as temporary:
        temporary.write_text(json.dumps({"labels": labels.tolist()}), encoding="utf-8")


def read_held_out(
    folder: Path, split: NodeSplit | LinkSplit | None, num_classes: int
) -> np.ndarray | None:
    """What `write_held_out` wrote; None where there is nothing."""
    path = folder / FILE
    if not isinstance(split, NodeSplit) or not path.is_file():
        return None
    with refusing_file(path):
        labels = np.array(json.loads(path.read_text(encoding="utf-8"))["labels"])
        codes = labels.astype(np.int64)
    if codes.shape != split.test.shape or not np.isin(codes, np.arange(-1, num_classes)).all():
        raise DataError(
            f"'{path}' does not belong to the split beside it; fit and save the model again."
        )
    return codes
