"""Where a data set's raw files are: the user's folder, our cache, or PyG's download address."""

from __future__ import annotations

import hashlib
import os
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from xtcl.errors import DataError
from xtcl.graph.datasets.quiet import quiet_pyg
from xtcl.graph.datasets.registry import DatasetSpec

TIMEOUT_SECONDS = 30.0


def cache_root() -> Path:
    """`XTCL_CACHE`, or `~/.cache/xtcl/raw`."""
    stated = os.environ.get("XTCL_CACHE")
    return Path(stated).expanduser() if stated else Path.home() / ".cache" / "xtcl" / "raw"


def data_root(data: str | os.PathLike[str] | None) -> Path | None:
    """The user's folder: `data`, else `XTCL_DATA`, else none. It is only ever read."""
    stated = data or os.environ.get("XTCL_DATA")
    if not stated:
        return None
    root = Path(stated).expanduser()
    if not root.is_dir():
        raise DataError(f"The data folder {root} does not exist: check --data or XTCL_DATA.")
    return root


def find_raw(spec: DatasetSpec, root: Path) -> Path | None:
    """The folder under `root` that holds all raw files of `spec`, with or without the family."""
    for chain in ((spec.family, spec.folder, "raw"), (spec.folder, "raw")):
        for folder in _descend(root, chain):
            if all((folder / file).is_file() for file in spec.files):
                return folder
    return None


def locate_raw(spec: DatasetSpec, data: str | os.PathLike[str] | None) -> Path:
    """The checked raw folder of `spec`; downloads into our cache where no folder has it."""
    roots = [root for root in (data_root(data), cache_root()) if root is not None]
    found = next((raw for root in roots if (raw := find_raw(spec, root)) is not None), None)
    folder = found or _download(spec)
    check_hashes(spec, folder)
    return folder


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
    """PyG's downloader would wait for ever on a dead connection."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(TIMEOUT_SECONDS)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)
