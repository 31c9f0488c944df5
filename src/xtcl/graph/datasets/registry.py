"""What we know about each named data set: where PyG keeps it, how large it is, its hashes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from xtcl.errors import UsageError, known_names
from xtcl.graph.datasets.hashes import CITESEER, COMPUTERS, CORA, PHOTO, PUBMED

Family = Literal["Planetoid", "Amazon", "Coauthor", "CitationFull"]


class Size(NamedTuple):
    """How large a data set is; edges are undirected, half of the number PyG gives."""

    nodes: int
    edges: int
    attributes: int
    classes: int


@dataclass(frozen=True)
class DatasetSpec:
    """One data set in PyG's raw layout: `<family>/<folder>/raw/<files>`."""

    name: str
    family: Family
    folder: str
    files: tuple[str, ...]
    size: Size
    sha256: Mapping[str, str] = field(default_factory=dict)


def _published(
    name: str, family: Family, folder: str, sha256: Mapping[str, str], size: Size
) -> DatasetSpec:
    return DatasetSpec(name, family, folder, tuple(sha256), size, sha256)


def _npz(name: str, family: Family, folder: str, file: str, size: Size) -> DatasetSpec:
    return DatasetSpec(name, family, folder, (f"{file}.npz",), size)


DATASETS: dict[str, DatasetSpec] = {
    spec.name: spec
    for spec in (
        _published("cora", "Planetoid", "Cora", CORA, Size(2_708, 5_278, 1_433, 7)),
        _published("citeseer", "Planetoid", "CiteSeer", CITESEER, Size(3_327, 4_552, 3_703, 6)),
        _published("pubmed", "Planetoid", "PubMed", PUBMED, Size(19_717, 44_324, 500, 3)),
        _published("photo", "Amazon", "Photo", PHOTO, Size(7_650, 119_081, 745, 8)),
        _published("computers", "Amazon", "Computers", COMPUTERS, Size(13_752, 245_861, 767, 10)),
        _npz("coauthor-cs", "Coauthor", "CS", "ms_academic_cs", Size(18_333, 81_894, 6_805, 15)),
        _npz(
            "coauthor-physics",
            "Coauthor",
            "Physics",
            "ms_academic_phy",
            Size(34_493, 247_962, 8_415, 5),
        ),
        _npz("cora-full", "CitationFull", "cora", "cora", Size(19_793, 63_421, 8_710, 70)),
        _npz("cora-ml", "CitationFull", "cora_ml", "cora_ml", Size(2_995, 8_158, 2_879, 7)),
        _npz("citeseer-full", "CitationFull", "citeseer", "citeseer", Size(4_230, 5_337, 602, 6)),
        _npz("dblp", "CitationFull", "dblp", "dblp", Size(17_716, 52_867, 1_639, 4)),
        _npz("pubmed-full", "CitationFull", "pubmed", "pubmed", Size(19_717, 44_324, 500, 3)),
    )
}


def dataset_spec(name: str) -> DatasetSpec:
    """The entry called `name`, in any case; an unknown name meets the closest known one."""
    spec = DATASETS.get(name.lower())
    if spec is None:
        raise UsageError(f"There is no data set {name!r}.{known_names(name, DATASETS)}")
    return spec
