"""`load_dataset`: a named data set as a `Graph`."""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib.resources import as_file, files

from xtcl.graph.datasets.location import cache_root, data_root, find_raw, locate_raw
from xtcl.graph.datasets.npz import read_npz
from xtcl.graph.datasets.planetoid import read_planetoid
from xtcl.graph.datasets.registry import DATASETS, dataset_spec
from xtcl.graph.graph import Graph


@dataclass(frozen=True)
class DatasetInfo:
    """One line of `xtcl datasets`; `edges` are undirected (PyG counts each of them twice)."""

    name: str
    source: str
    nodes: int
    edges: int
    classes: int
    attributes: int
    available: bool


def load_dataset(name: str, data: str | os.PathLike[str] | None = None) -> Graph:
    """Load a data set, in PyG's node order and label ids, so that seeds mean the same as there.

    Cora ships in the package. The others are read from `data` or `XTCL_DATA`, in PyG's raw layout
    (`Planetoid/CiteSeer/raw`, `Amazon/Photo/raw`, or without the family), which is never written
    to; else from our cache (`XTCL_CACHE` or `~/.cache/xtcl/raw`); else downloaded into that cache.
    """
    spec = dataset_spec(name)
    if spec.name == "cora":
        return _packaged_cora()
    folder = locate_raw(spec, data)
    if spec.family == "Planetoid":
        return read_planetoid(folder, spec.name, spec.name)
    return read_npz(folder / spec.files[0], spec.name)


def describe_datasets(data: str | os.PathLike[str] | None = None) -> list[DatasetInfo]:
    """Every known data set, and whether it can be loaded here without a download."""
    roots = [root for root in (data_root(data), cache_root()) if root is not None]
    return [
        DatasetInfo(
            name=spec.name,
            source="package" if spec.name == "cora" else f"{spec.family}/{spec.folder}/raw",
            **spec.size._asdict(),
            available=spec.name == "cora" or any(find_raw(spec, root) for root in roots),
        )
        for spec in DATASETS.values()
    ]


def _packaged_cora() -> Graph:
    with as_file(files("xtcl.graph.datasets") / "data" / "cora.npz") as path:
        return Graph.load(path)
