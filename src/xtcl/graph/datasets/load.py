"""`load_dataset`: a named data set as a `Graph`; where it is found, and how it is checked."""

from __future__ import annotations

import hashlib
import os
import socket
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.resources import as_file, files
from pathlib import Path
from typing import Literal, NamedTuple

from xtcl.errors import DataError, UsageError, known_names
from xtcl.graph.datasets.formats import quiet_pyg, read_npz, read_plain_npz, read_planetoid
from xtcl.graph.graph import Graph

_TIMEOUT_SECONDS = 30.0
_Family = Literal["Planetoid", "Amazon", "Coauthor", "CitationFull", "more"]


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

    Further graphs (imdb, flickr, ...) are files of plain arrays, `more/imdb.npz` in the same
    folders, and are not downloaded. DBLP may be in either layout: its attributes are 0 and 1 in
    PyG's, weights of words in the plain one.
    """
    spec = dataset_spec(name)
    if spec.name == "cora":
        return _packaged_cora()
    spec, folder = locate_raw(spec, data)
    if spec.family == "Planetoid":
        return read_planetoid(folder, spec.name, spec.name)
    read = read_plain_npz if spec.family == "more" else read_npz
    return read(folder / spec.files[0], spec.name)


def describe_datasets(data: str | os.PathLike[str] | None = None) -> list[DatasetInfo]:
    """Every known data set, and whether it can be loaded here without a download."""
    roots = [root for root in (data_root(data), cache_root()) if root is not None]
    infos = []
    for spec in DATASETS.values():
        found = _found(spec, roots)
        source = spec.source if found is None else found[0].source
        if spec.name == "cora":
            source = "package"
        here = spec.name == "cora" or found is not None
        infos.append(DatasetInfo(spec.name, source, **spec.size._asdict(), available=here))
    return infos


def _packaged_cora() -> Graph:
    with as_file(files("xtcl.graph.datasets") / "data" / "cora.npz") as path:
        return Graph.load(path)


def dataset_spec(name: str) -> DatasetSpec:
    """The entry called `name`, in any case; an error names the closest known one."""
    spec = DATASETS.get(name.lower())
    if spec is None:
        raise UsageError(f"There is no data set {name!r}.{known_names(name, DATASETS)}")
    return spec


class Size(NamedTuple):
    """How large a data set is; edges are undirected, half of the number PyG gives."""

    nodes: int
    edges: int
    attributes: int
    classes: int


@dataclass(frozen=True)
class DatasetSpec:
    """One data set in PyG's raw layout: `<family>/<folder>/raw/<files>`.

    Of the family "more" it is one file of plain arrays, `more/<files>`, and `folder` says where the
    graph comes from. `other` is the same data set in another layout.
    """

    name: str
    family: _Family
    folder: str
    files: tuple[str, ...]
    size: Size
    sha256: Mapping[str, str] = field(default_factory=dict)
    other: DatasetSpec | None = None

    @property
    def source(self) -> str:
        """Where it is below a data folder."""
        if self.family == "more":
            return f"more/{self.files[0]}"
        return f"{self.family}/{self.folder}/raw"


def locate_raw(spec: DatasetSpec, data: str | os.PathLike[str] | None) -> tuple[DatasetSpec, Path]:
    """The layout that is there, and its checked folder; without any, a download into our cache."""
    roots = [root for root in (data_root(data), cache_root()) if root is not None]
    spec, folder = _found(spec, roots) or (spec, _download(spec))
    check_hashes(spec, folder)
    return spec, folder


def _found(spec: DatasetSpec, roots: Iterable[Path]) -> tuple[DatasetSpec, Path] | None:
    """The first of the roots that has the data set, in one of its layouts."""
    for root in roots:
        for layout in (spec, spec.other):
            if layout is not None and (folder := find_raw(layout, root)) is not None:
                return layout, folder
    return None


def data_root(data: str | os.PathLike[str] | None) -> Path | None:
    """The user's folder: `data`, else `XTCL_DATA`, else none. It is only ever read."""
    stated = data or os.environ.get("XTCL_DATA")
    if not stated:
        return None
    root = Path(stated).expanduser()
    if not root.is_dir():
        raise DataError(f"The data folder {root} does not exist: check --data or XTCL_DATA.")
    return root


def cache_root() -> Path:
    """`XTCL_CACHE`, or `~/.cache/xtcl/raw`."""
    stated = os.environ.get("XTCL_CACHE")
    return Path(stated).expanduser() if stated else Path.home() / ".cache" / "xtcl" / "raw"


def find_raw(spec: DatasetSpec, root: Path) -> Path | None:
    """The folder under `root` that holds all raw files of `spec`, with or without the family."""
    pyg = (spec.family, spec.folder, "raw"), (spec.folder, "raw")
    for chain in (("more",),) if spec.family == "more" else pyg:
        for folder in _descend(root, chain):
            if all((folder / file).is_file() for file in spec.files):
                return folder
    return None


def _descend(folder: Path, chain: tuple[str, ...]) -> Iterator[Path]:
    """All paths `folder/chain...`, whatever their case: a root may hold both Cora and cora."""
    if not chain:
        yield folder
    elif folder.is_dir():
        for child in sorted(folder.iterdir()):
            if child.name.lower() == chain[0].lower():
                yield from _descend(child, chain[1:])


def check_hashes(spec: DatasetSpec, folder: Path) -> None:
    """Refuse files that are not the published ones, before anything opens them."""
    for file, expected in spec.sha256.items():
        with (folder / file).open("rb") as stream:
            if hashlib.file_digest(stream, "sha256").hexdigest() != expected:
                raise DataError(
                    f"{folder / file} is not the published file of {spec.name} (its SHA-256 "
                    "differs), so it was not opened: replace it with the original."
                )


def _download(spec: DatasetSpec) -> Path:
    """Fetch the raw files with PyG's downloader; each file appears whole or not at all."""
    if spec.family == "more":
        raise DataError(
            f"Data set {spec.name!r} was found nowhere, and is not downloaded: put "
            f"{spec.files[0]} into DIR/more and give --data DIR, data=DIR or XTCL_DATA=DIR. It "
            f"holds the graph of {spec.folder} as plain arrays (`read_plain_npz` names them)."
        )
    target = cache_root() / spec.family / spec.folder / "raw"
    try:
        target.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target) as partial, _socket_timeout():
            for file in spec.files:
                Path(_fetch(spec, file, partial)).replace(target / file)
    except OSError as error:
        raise DataError(
            f"Data set {spec.name!r} was found nowhere and could not be downloaded ({error}). Put "
            f"its raw files ({', '.join(spec.files)}) into DIR/{spec.family}/{spec.folder}/raw and "
            "give --data DIR, data=DIR or XTCL_DATA=DIR."
        ) from error
    return target


def _fetch(spec: DatasetSpec, file: str, folder: str) -> str:
    """Download one raw file from the address that PyG's own class uses."""
    with quiet_pyg():
        from torch_geometric import datasets
        from torch_geometric.data import download_url

    url: str = getattr(datasets, spec.family).url
    address = url.format(spec.folder) if "{}" in url else f"{url.rstrip('/')}/{file}"
    return str(download_url(address, folder, log=False))


@contextmanager
def _socket_timeout() -> Iterator[None]:
    """A time limit for PyG's downloader, which has none."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(_TIMEOUT_SECONDS)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)


_CORA = {
    "ind.cora.x": "23cfa55d91c6f624233f5eb7b6e3f141f1bd2b2ae39608a63cf5d084bb27baab",
    "ind.cora.tx": "b9afbaa4a400df991f6f02ef677e1e44da55ffc04801fd02f9e673987829226a",
    "ind.cora.allx": "9419ba2f26f5c35243db64aba110e0f35a04851609e0dc5433450676ca6b8543",
    "ind.cora.y": "94465c14eb53e04ca262198dcbb2521ee8af60fb3f3d546cd6ca24a511b0e7d1",
    "ind.cora.ty": "41f5ac76596a1699cc33f53084a2419e92961c42bb75f36fc38e616d348532ad",
    "ind.cora.ally": "2b998f5cc7fedc86e7f97ca2498f47a1ffc1462c29e2d578b23bf3f62b6e7d71",
    "ind.cora.graph": "58f13302f39dde8852dad6fe6d15b89b077b6d7f837626bce671ef80344b383d",
    "ind.cora.test.index": "297ce89af2b51a6a194181c7dbe1796c6a1cf9cd9349a88383b1b1e227867875",
}
_CITESEER = {
    "ind.citeseer.x": "d20de19150741e555de0ed037195630fc194114ebc7fd72ced62810148aa22f6",
    "ind.citeseer.tx": "539a8906a2da97628d212f2fdd668c109a8b3f0d36574b59e5d3fd5b5303da21",
    "ind.citeseer.allx": "2ac30345d95c9ec933a817ee0bdd6a5f077f8c184a20e696910192d534414668",
    "ind.citeseer.y": "8ba87e515d8e3ee3cf52f6d2c5b86aa73f11ecad825a808455209ec26cd54924",
    "ind.citeseer.ty": "55e5bd1ba1e733a04598753ad1a8d57957f4b8f89e74519f41f4f4938767e4ce",
    "ind.citeseer.ally": "f704b2d986dde6c2669934de1f3ae5696a6cf9455c0f6b2646a2d135ea0a1c95",
    "ind.citeseer.graph": "d79a4ef9d3e7169aee8946145f6b7306e35bc79bffad26346cfb94e10e9912a7",
    "ind.citeseer.test.index": "2af990671580b6b2df5d158d1038f8292e30c9cd821b5453f399659b25b723d4",
}
_PUBMED = {
    "ind.pubmed.x": "fbe9cb5c47200d1b7769a26e579be3b7130b556831f9d850e77c4c74f2599b33",
    "ind.pubmed.tx": "4eb5f5d0f30f26497eb0ac6ac9719d09c67e284f1ed0385c93f3ef27a671da3d",
    "ind.pubmed.allx": "508e538e2abdccdd54c4d3e9f49d638b4af7107d85845f66ddea5a5152658b7e",
    "ind.pubmed.y": "e6c807633307a07ed659249006536a147c7999c797f11a2560752990181b41b3",
    "ind.pubmed.ty": "ee2e0d4819d9fbcc403689c3bf2e49face401b605932f093bc58ab6461130fdd",
    "ind.pubmed.ally": "0c37bbe3b5014ec365e9d393cf4791925e5ed94fb194305d74f064a8d7b50f0e",
    "ind.pubmed.graph": "5b89f0036ca22909471f1e6558eb42fa06e0c730a577bde5b058b40638f81dc9",
    "ind.pubmed.test.index": "b101d421688bbaecbd82e8a18f1e282378d6830f3a37666f28ebc47f844341b5",
}
_PHOTO = {
    "amazon_electronics_photo.npz": (
        "2b8d158fa1483bca508de5025cf31c17cf15e63600e294c547e6dc87f3189fe0"
    ),
}
_COMPUTERS = {
    "amazon_electronics_computers.npz": (
        "e3a78127c122ce4a6a1bd6effb2112ec2b0ad1f795f5bd98bee206772777ca5e"
    ),
}


def _published(
    name: str, family: _Family, folder: str, sha256: Mapping[str, str], size: Size
) -> DatasetSpec:
    return DatasetSpec(name, family, folder, tuple(sha256), size, sha256)


def _npz(
    name: str,
    family: _Family,
    folder: str,
    file: str,
    size: Size,
    other: DatasetSpec | None = None,
) -> DatasetSpec:
    return DatasetSpec(name, family, folder, (f"{file}.npz",), size, other=other)


def _plain(name: str, origin: str, size: Size) -> DatasetSpec:
    return DatasetSpec(name, "more", origin, (f"{name}.npz",), size)


_DBLP = Size(17_716, 52_867, 1_639, 4)
_GRAPH_DATA = "EdisonLeeeee/GraphData on GitHub"
_HETEROPHILOUS = "yandex-research/heterophilous-graphs on GitHub"
_MUSAE = "benedekrozemberczki/MUSAE on GitHub"


DATASETS: dict[str, DatasetSpec] = {
    spec.name: spec
    for spec in (
        _published("cora", "Planetoid", "Cora", _CORA, Size(2_708, 5_278, 1_433, 7)),
        _published("citeseer", "Planetoid", "CiteSeer", _CITESEER, Size(3_327, 4_552, 3_703, 6)),
        _published("pubmed", "Planetoid", "PubMed", _PUBMED, Size(19_717, 44_324, 500, 3)),
        _published("photo", "Amazon", "Photo", _PHOTO, Size(7_650, 119_081, 745, 8)),
        _published("computers", "Amazon", "Computers", _COMPUTERS, Size(13_752, 245_861, 767, 10)),
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
        _npz("dblp", "CitationFull", "dblp", "dblp", _DBLP, _plain("dblp", _GRAPH_DATA, _DBLP)),
        _npz("pubmed-full", "CitationFull", "pubmed", "pubmed", Size(19_717, 44_324, 500, 3)),
        _plain("imdb", "the PyPI package graphdatascience 2.2", Size(4_661, 50_196, 1_256, 3)),
        _plain("flickr", _GRAPH_DATA, Size(7_575, 239_738, 12_047, 9)),
        _plain("facebook_pages", _MUSAE, Size(22_470, 170_823, 4_714, 4)),
        _plain("twitch_england", _MUSAE, Size(7_126, 35_324, 3_172, 2)),
        _plain("actor", _HETEROPHILOUS, Size(7_600, 26_659, 932, 5)),
        _plain("chameleon_filtered", _HETEROPHILOUS, Size(890, 8_854, 2_325, 5)),
        _plain("chameleon_directed", _HETEROPHILOUS, Size(890, 8_854, 2_325, 5)),
        _plain("minesweeper", _HETEROPHILOUS, Size(10_000, 39_402, 7, 2)),
    )
}
