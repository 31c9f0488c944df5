"""A small graph as tables, some of its nodes kept for later, and fits of it."""

from __future__ import annotations

import atexit
import csv
import functools
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from small_runs import small_graph, small_model

from xtcl.estimator import XTCL
from xtcl.graph.splits import link_split, node_split
from xtcl.graph.tables.read import read_spec
from xtcl.graph.tables.spec import TableSpec

FIRST = 70
"""The nodes from here on come after the fit."""
ODD = {3: "=cmd()", 5: "+49 1", 8: "'twas", 11: 'O"Hara, B.'}
CLASSES = ("cat", "dog", "=owl")


def name(node: int) -> str:
    """The id of a node in the tables."""
    return ODD.get(node, f"n{node}")


@dataclass(frozen=True)
class Tables:
    """Where the tables are."""

    folder: Path

    @property
    def paths(self) -> tuple[Path, Path]:
        """Of the fit."""
        return self.folder / "nodes.csv", self.folder / "edges.csv"

    @property
    def new(self) -> tuple[Path, Path]:
        """Of the nodes that come later."""
        return self.folder / "new.csv", self.folder / "new-edges.csv"


def write_rows(path: Path, head: list[str], rows: list[list[object]]) -> Path:
    """Write a CSV file."""
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([head, *rows])
    return path


@functools.cache
def tables() -> Tables:
    """The tables, once for all tests."""
    folder = Path(tempfile.mkdtemp(prefix="answers-"))
    atexit.register(shutil.rmtree, folder)
    found = Tables(folder)
    graph = small_graph()
    assert graph.labels is not None
    values = np.asarray(graph.attributes)
    words = [f"w{at}" for at in range(values.shape[1])]
    rows: list[list[object]] = [[name(u), *values[u].tolist()] for u in range(graph.num_nodes)]
    labelled = [[*row, CLASSES[graph.labels[u]]] for u, row in enumerate(rows[:FIRST])]
    write_rows(found.paths[0], ["id", *words, "kind"], labelled)
    write_rows(found.new[0], [*words[::-1], "id"], [row[::-1] for row in rows[FIRST:]])
    links: list[list[object]] = [[name(u), name(v)] for u, v in graph.edges.T]
    late = (graph.edges >= FIRST).any(axis=0)
    for path, chosen in ((found.paths[1], ~late), (found.new[1], late)):
        write_rows(path, ["from", "to"], [links[at] for at in np.flatnonzero(chosen)])
    return found


@functools.cache
def fitted(task: str) -> XTCL:
    """A fit of the tables; not to be changed."""
    nodes, edges = tables().paths
    graph = read_spec(TableSpec(edges, nodes, label="kind")).graph
    split = link_split(graph, seed=0) if task == "links" else node_split(graph, 0.4, seed=0)
    return small_model(task).fit(graph, split)


@functools.cache
def run_folder(task: str) -> Path:
    """The run directory of such a fit."""
    folder = tables().folder / task
    fitted(task).save(folder)
    return folder
