"""Make the packaged Cora: graphdatascience's copy of the graph in Planetoid's node order.

    python tools/embed_cora.py PLANETOID_RAW_FOLDER

Attributes, links and subjects come from the Apache-2.0 package `graphdatascience` (2.2, Neo4j).
Planetoid's raw files only say in which order the nodes go and which number a class has, so that a
seed draws the same split here as with PyG. Nodes are matched by their attributes and, where those
repeat, by their neighbourhood; the result is written only if it agrees with Planetoid completely.
"""

from __future__ import annotations

import sys
from importlib.resources import as_file, files
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from xtcl.errors import DataError
from xtcl.graph.datasets.formats import read_planetoid
from xtcl.graph.datasets.load import check_hashes, dataset_spec
from xtcl.graph.graph import Graph

# The numbers that graphdatascience's serialize_cora.py gives the subjects.
SUBJECTS = (
    "Neural_Networks",
    "Rule_Learning",
    "Reinforcement_Learning",
    "Probabilistic_Methods",
    "Theory",
    "Genetic_Algorithms",
    "Case_Based",
)
TARGET = Path(__file__).parents[1] / "src" / "xtcl" / "graph" / "datasets" / "data" / "cora.npz"


def read_graphdatascience() -> Graph:
    """Cora as graphdatascience ships it, in its own node order and subject numbers."""
    import pyarrow.parquet as pq

    source = files("graphdatascience") / "resources" / "cora"
    with as_file(source / "cora_nodes.parquet.gzip") as path:
        nodes = pq.read_table(path)
    with as_file(source / "cora_rels.parquet.gzip") as path:
        links = pq.read_table(path)
    ids = nodes["nodeId"].to_numpy()
    order = np.argsort(ids)
    ends = [
        order[np.searchsorted(ids, links[column].to_numpy(), sorter=order)]
        for column in ("sourceNodeId", "targetNodeId")
    ]
    return Graph.from_arrays(
        csr_array(np.array(nodes["features"].to_pylist(), dtype=np.float32)),
        np.stack(ends),
        nodes["subject"].to_numpy(),
        classes=SUBJECTS,
        name="cora",
    )


def match_nodes(ours: Graph, theirs: Graph) -> NDArray[np.int64]:
    """For every node of `theirs`, its node in `ours`: by attributes, then by neighbourhood.

    Colour refinement with one palette for both graphs. Nodes that still share a colour after
    twenty rounds look the same from everywhere, and are paired in their order.
    """
    graphs = (ours, theirs)
    palette: dict[object, int] = {}
    colours = [
        [palette.setdefault(tuple(row.nonzero()[0].tolist()), len(palette)) for row in _rows(graph)]
        for graph in graphs
    ]
    for _ in range(20):
        palette = {}
        for place, graph in enumerate(graphs):
            old, adjacency = colours[place], graph.adjacency
            seen = [
                (old[u], *sorted(old[v] for v in adjacency.indices[slice(*bounds)]))
                for u, bounds in enumerate(
                    zip(adjacency.indptr[:-1], adjacency.indptr[1:], strict=True)
                )
            ]
            colours[place] = [palette.setdefault(view, len(palette)) for view in seen]
    if sorted(colours[0]) != sorted(colours[1]):
        raise DataError("The two copies of Cora differ: their nodes cannot be matched.")
    matched = np.empty(ours.num_nodes, dtype=np.int64)
    matched[np.argsort(colours[1], kind="stable")] = np.argsort(colours[0], kind="stable")
    return matched


def reorder(ours: Graph, theirs: Graph) -> Graph:
    """`ours` in the node order and label numbers of `theirs`, proved equal to it."""
    matched = match_nodes(ours, theirs)
    place = np.argsort(matched)
    if ours.labels is None or theirs.labels is None:
        raise DataError("Both copies of Cora must have labels.")
    subject_of = dict(zip(theirs.labels.tolist(), ours.labels[matched].tolist(), strict=True))
    label_of = {subject: label for label, subject in subject_of.items()}
    labels = np.array([label_of[subject] for subject in ours.labels[matched].tolist()])
    graph = Graph.from_arrays(
        csr_array(ours.attributes)[matched],
        np.unique(np.sort(place[ours.edges], axis=0), axis=1),
        labels,
        classes=tuple(ours.classes[subject_of[label]] for label in range(len(subject_of))),
        name="cora",
    )
    same = (
        np.array_equal(_rows(graph), _rows(theirs))
        and np.array_equal(graph.edges, theirs.edges)
        and np.array_equal(labels, theirs.labels)
        and len(label_of) == len(subject_of) == len(SUBJECTS)
    )
    if not same:
        raise DataError(
            "The reordered Cora differs from Planetoid's in attributes, links or labels."
        )
    return graph


def _rows(graph: Graph) -> NDArray[np.float32]:
    return csr_array(graph.attributes).toarray()


def main(folder: Path) -> None:
    """Write the packaged file from the Planetoid raw files in `folder`."""
    check_hashes(dataset_spec("cora"), folder)
    graph = reorder(read_graphdatascience(), read_planetoid(folder, "cora", "cora"))
    TARGET.parent.mkdir(exist_ok=True)
    graph.save(TARGET)
    print(f"{TARGET.name}: {graph.num_nodes} nodes, {graph.num_edges} links, {graph.classes}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
