"""Readers of data sets' files: Planetoid's, the npz layout of PyG's others, and plain arrays."""

from __future__ import annotations

import warnings
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.lib.npyio import NpzFile

from xtcl.errors import DataError
from xtcl.graph.graph import Graph
from xtcl.graph.validation import Attributes, SparseMatrix, canonical_edges, check_attributes

_SPARSE_BELOW = 0.2
"""Share of non-zeros below which sparse rows are smaller (8 bytes against 4 each) and faster."""
_UNREADABLE = (
    *(EOFError, KeyError, OSError, TypeError, ValueError, zipfile.BadZipFile, zlib.error),
    RuntimeError,  # an archive whose damage reads as a password or a method of compression
)


def read_planetoid(folder: Path, prefix: str, name: str) -> Graph:
    """Read `ind.<prefix>.*` with PyG's own reader, so that node order and labels are PyG's.

    The files are pickles: call this only after their hashes were checked. CiteSeer's 15 test nodes
    that have neither attributes nor a label get class 0, as in PyG. Its reader repairs the links
    silently, so `repairs` come from the neighbour lists in the file.
    """
    with quiet_pyg():
        from torch_geometric.io import planetoid

        data = planetoid.read_planetoid_data(str(folder), prefix)
        lists: Any = planetoid.read_file(str(folder), prefix, "graph")
    both = data.edge_index.numpy()
    graph = Graph.from_arrays(
        compact_attributes(data.x.numpy()),
        both[:, both[0] < both[1]].astype(np.int64),
        data.y.numpy(),
        name=name,
    )
    raw = np.array([(u, v) for u, near in lists.items() for v in near], np.int64)
    _, repairs = canonical_edges(raw.T, graph.num_nodes, directed=True)
    return replace(graph, repairs=repairs)


def read_npz(path: Path, name: str) -> Graph:
    """Read one file, as PyG does (attributes above 0 become 1, links lose direction) but unpickled.

    Only plain arrays are read: an object array, which would need pickle, is refused.
    """
    with _opened(path, "that PyG's Amazon, Coauthor and CitationFull use") as stored:
        return _to_graph(stored, name)


def read_plain_npz(path: Path, name: str) -> Graph:
    """Read one file of plain arrays.

    `edge_index` [2, E], the attributes as the parts of a CSR matrix (`x_data`, `x_indices`,
    `x_indptr`, `x_shape`), and `y` [V], the class of each node or -1. Values are taken as they are,
    links lose direction. An object array, which would need pickle, is refused.
    """
    with _opened(path, "of plain arrays (edge_index, x_data ... x_shape, y)") as stored:
        links, labels = stored["edge_index"], stored["y"]
        attributes = check_attributes(_matrix(stored, "x"))
        if labels.shape != attributes.shape[:1] or labels.dtype.kind != "i":
            raise DataError(
                f"y is {labels.dtype} {list(labels.shape)}, not a whole number for each of the "
                f"{attributes.shape[0]} rows of attributes"
            )
        return Graph.from_arrays(compact_attributes(attributes), links, labels, name=name)


@contextmanager
def _opened(path: Path, layout: str) -> Iterator[NpzFile]:
    """The arrays of a file, none of them pickled; one that cannot be read is refused."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            yield stored
    except _UNREADABLE as error:
        raise DataError(
            f"{path} is not a graph in the npz layout {layout} ({str(error).rstrip('.')}): "
            "replace it with the original."
        ) from error


def _to_graph(stored: NpzFile, name: str) -> Graph:
    attributes = _matrix(stored, "attr")
    attributes.data[attributes.data > 0] = 1
    adjacency = _matrix(stored, "adj").tocoo()
    links, repairs = canonical_edges(
        np.stack([adjacency.row, adjacency.col]), adjacency.shape[0], directed=True
    )
    graph = Graph.from_arrays(
        compact_attributes(attributes),
        links,
        stored["labels"].astype(np.int64),
        classes=stored["class_names"].tolist() if "class_names" in stored else None,
        name=name,
    )
    return replace(graph, repairs=repairs)


def _matrix(stored: NpzFile, kind: str) -> SparseMatrix:
    data, indices, indptr = (stored[f"{kind}_{part}"] for part in ("data", "indices", "indptr"))
    rows, columns = stored[f"{kind}_shape"].tolist()
    return SparseMatrix((data.astype(np.float32), indices, indptr), shape=(rows, columns))


def compact_attributes(attributes: Attributes) -> Attributes:
    """The same numbers, sparse where few are non-zero."""
    limit = _SPARSE_BELOW * attributes.shape[0] * attributes.shape[1]
    if isinstance(attributes, np.ndarray):
        sparse = np.count_nonzero(attributes) < limit
        return SparseMatrix(cast("Any", attributes)) if sparse else attributes
    return attributes if attributes.count_nonzero() < limit else attributes.toarray()


@contextmanager
def quiet_pyg() -> Iterator[None]:
    """Importing PyG compiles with `torch.jit`, which torch deprecates.

    Leaving the block also takes back the filters that PyG's reader adds to the process.
    """
    with warnings.catch_warnings():
        message = r".*torch\.jit\.\w+. is deprecated"
        warnings.filterwarnings("ignore", message, DeprecationWarning)
        yield
