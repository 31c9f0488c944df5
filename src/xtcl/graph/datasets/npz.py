"""The npz files of Amazon, Coauthor (Shchur et al. 2018) and CitationFull (Bojchevski 2018)."""

from __future__ import annotations

import zipfile
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.lib.npyio import NpzFile

from xtcl.errors import DataError
from xtcl.graph.arrays import SparseMatrix
from xtcl.graph.datasets.compact import compact_attributes
from xtcl.graph.edges import canonical_edges
from xtcl.graph.graph import Graph


def read_npz(path: Path, name: str) -> Graph:
    """Read one file, as PyG does (attributes above 0 become 1, links lose direction) but unpickled.

    Only plain arrays are read: an object array, which would need pickle, is refused.
    """
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            return _to_graph(stored, name)
    except (EOFError, KeyError, ValueError, zipfile.BadZipFile, zlib.error) as error:
        raise DataError(
            f"{path} is not a graph in the npz layout that PyG's Amazon, Coauthor and CitationFull "
            f"use ({error}): replace it with the original."
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
