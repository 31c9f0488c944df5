"""Files that are written in one step: whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def atomic_path(path: str | os.PathLike[str], *, durable: bool = True) -> Iterator[Path]:
    """Yield a temporary path in the same folder that becomes `path` if the block succeeds.

    The content is on the disk before the name changes, so that a crash leaves either the old file
    or the new one; not if `durable` is off, for folders that no crash outlives. If the block fails,
    the temporary file goes and `path` stays as it was.
    """
    target = Path(path)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".tmp")
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(_usual_mode(target))
        if durable:
            _sync(temporary)
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if durable and os.name == "posix":  # the rename itself lives in the folder
        _sync(target.parent)


def _usual_mode(target: Path) -> int:
    # mkstemp makes files that only the owner can read; give what a plain open() would have given.
    try:
        return target.stat().st_mode & 0o777
    except FileNotFoundError:  # also where another process has just removed it
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
