"""A graph in one file: a .npz archive without pickle, the same bytes for the same graph."""

from __future__ import annotations

import io
import json
import warnings
import zipfile
import zlib
from dataclasses import asdict, replace
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from xtcl.errors import DataError, first_few
from xtcl.files import atomic_path
from xtcl.graph.encoding import TableEncoding
from xtcl.graph.graph import Graph
from xtcl.graph.validation import Repairs

if TYPE_CHECKING:
    from collections.abc import Mapping

_FORMAT = "xtcl-graph"
_VERSION = 1
# What zipfile, zlib and numpy raise on damaged archives, besides ValueError.
_DAMAGE = (
    EOFError,
    LookupError,
    MemoryError,
    NotImplementedError,
    OverflowError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
    zipfile.BadZipFile,
    zlib.error,
)


def save_graph(graph: Graph, path: str | PathLike[str]) -> None:
    """Write the graph atomically. Node ids that are neither integers nor strings are left out."""
    arrays: dict[str, Any] = {
        "edges": graph.edges,
    }
    if isinstance(graph.attributes, np.ndarray):
        arrays["attributes"] = graph.attributes
    else:
        arrays["attributes_data"] = graph.attributes.data
        arrays["attributes_indices"] = graph.attributes.indices
        arrays["attributes_indptr"] = graph.attributes.indptr
        arrays["attributes_shape"] = np.array(graph.attributes.shape, np.int64)
    if graph.labels is not None:
        arrays["labels"] = graph.labels
    if graph.node_ids is not None:
        if graph.node_ids.dtype.kind in "iuU":
            arrays["node_ids"] = graph.node_ids
        else:
            warnings.warn(
                f"Node ids of type {graph.node_ids.dtype} are not saved; use integers or strings.",
                stacklevel=3,
            )
    arrays["header"] = np.array(_header(graph, sorted(arrays)))
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, **arrays)


def _header(graph: Graph, arrays: list[str]) -> str:
    for value in graph.classes:
        if not isinstance(value, (str, int, float)):
            raise DataError(f"Class {value!r} cannot be saved; use strings or numbers as classes.")
    header = {
        "format": _FORMAT,
        "version": _VERSION,
        "name": graph.name,
        "classes": list(graph.classes),
        "repairs": asdict(graph.repairs),
        "arrays": arrays,  # a damaged zip directory can hide a member
    }
    if graph.encoding is not None:
        header["encoding"] = graph.encoding.to_json()
    return json.dumps(header, sort_keys=True)


def load_graph(path: str | PathLike[str]) -> Graph:
    """Read what `save_graph` wrote, checked as if it came from anywhere."""
    try:
        with zipfile.ZipFile(path) as archive:
            # whole members first: that checks their CRC before anything in them is used
            members = {name: archive.read(name) for name in archive.namelist()}
        return _read({name.removesuffix(".npy"): _array(raw) for name, raw in members.items()})
    except OSError as error:
        raise DataError(
            f"The graph file {path} cannot be read: {error.strerror or error}."
        ) from error
    except _DAMAGE as error:
        raise DataError(
            f"{path} is damaged or not a graph file ({error}); write it again with Graph.save."
        ) from error


def _array(raw: bytes) -> np.ndarray[Any, Any]:
    array: np.ndarray[Any, Any] = np.lib.format.read_array(io.BytesIO(raw), allow_pickle=False)
    return array


def _read(arrays: Mapping[str, np.ndarray[Any, Any]]) -> Graph:
    if "header" not in arrays:
        raise DataError("it has no header")
    header = json.loads(str(arrays["header"]))
    if header["format"] != _FORMAT or header["version"] != _VERSION:
        raise DataError(f"this version reads {_FORMAT} {_VERSION} only")
    lacking = {"edges", *header.get("arrays", ())} - arrays.keys()
    if lacking:
        raise DataError(f"it has no {first_few(sorted(lacking))}")
    graph = Graph.from_arrays(
        _attributes(arrays),
        arrays["edges"],
        arrays.get("labels"),
        node_ids=arrays.get("node_ids"),
        classes=header["classes"] if "labels" in arrays else None,
        name=str(header["name"]),
    )
    if graph.repairs:  # save writes canonical edges only
        raise DataError("its edges are not canonical")
    counts = {key: int(value) for key, value in header["repairs"].items()}
    if min(counts.values(), default=0) < 0:
        raise DataError("its counts of repairs are negative")
    stored = header.get("encoding")
    encoding = None if stored is None else TableEncoding.from_json(stored)
    return replace(graph, repairs=Repairs(**counts), encoding=encoding)


def _attributes(arrays: Mapping[str, np.ndarray[Any, Any]]) -> Any:
    if "attributes" in arrays:
        return arrays["attributes"]
    indices, indptr = arrays["attributes_indices"], arrays["attributes_indptr"]
    if indices.dtype.kind != "i" or indptr.dtype.kind != "i":
        raise DataError("its sparse attributes have places that are not integers")
    rows, columns = arrays["attributes_shape"].tolist()
    parts = (arrays["attributes_data"], indices, indptr)
    return sparse.csr_array(parts, shape=(rows, columns))
