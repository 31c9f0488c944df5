"""Records of an experiment: one JSON-lines file, one line for each run."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

from xtcl.files import atomic_path

SHARED_FIELDS = frozenset({"config", "hardware", "recipe", "search", "versions"})
"""Fields whose value many records have in common. It has a line of its own, named by its digest."""


class RecordFile:
    """The records of an experiment by their key, in a file that a killed program leaves readable.

    A record is a line `{"key": ..., "record": ...}`. Values that records share come first, as
    `{"shared": DIGEST, "value": ...}`, and records refer to them by `{"shared": DIGEST}`. Records
    are sorted by key, so a new run is one added line.

    A new record is first appended to PATH.partial and is on the disk when `append` returns; `fold`
    moves it into PATH. Several processes may write the same file on one machine. The folder `old`
    has one file KEY.json for each record, the layout of earlier versions: it is read, and its
    records are in PATH after the next `fold`.
    """

    def __init__(self, path: Path, old: Path | None = None) -> None:
        self.path = path
        self.partial = path.with_name(f"{path.name}.partial")
        self.old = old

    def read(self) -> dict[str, Any]:
        """All records by their key; a damaged line is left out."""
        return self._read()[0]

    def append(self, key: str, record: Any) -> None:
        """Add a record, or replace the one with the same key."""
        line = json.dumps({"key": key, "record": record}) + "\n"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self._locked(), self.partial.open("ab+") as file:
            if file.tell():
                file.seek(-1, os.SEEK_END)
                if file.read() != b"\n":  # a program was killed while it wrote a line
                    line = "\n" + line
            file.write(line.encode())
            file.flush()
            os.fsync(file.fileno())

    def fold(self) -> None:
        """Move what was appended, and what the old folder has, into the file."""
        if not self.path.parent.exists():
            return
        with self._locked():
            records, damaged = self._read()
            text = "".join(f"{line}\n" for line in encode_records(records))
            if records and (not self.path.exists() or self.path.read_text("utf-8") != text):
                if damaged:
                    shutil.copy2(self.path, self.path.with_name(f"{self.path.name}.damaged"))
                with atomic_path(self.path) as temporary:
                    temporary.write_text(text, encoding="utf-8")
            self.partial.unlink(missing_ok=True)

    def _read(self) -> tuple[dict[str, Any], int]:
        """Records, and the number of damaged lines of the file itself."""
        records: dict[str, Any] = {}
        for path in sorted(self.old.glob("*.json")) if self.old else ():
            try:
                records[path.stem] = json.loads(path.read_text(encoding="utf-8"))
            except (OSError, ValueError):
                continue
        whole, damaged = decode_records(self.path)
        return records | whole | decode_records(self.partial)[0], damaged

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Other processes that write into the same folder wait, where the system has such locks."""
        if os.name != "posix":
            yield
            return
        import fcntl

        folder = os.open(self.path.parent, os.O_RDONLY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            yield
        finally:
            os.close(folder)


def encode_records(records: dict[str, Any]) -> list[str]:
    """The lines of a file: shared values, then records by key."""
    shared: dict[str, str] = {}

    def shorten(value: Any) -> Any:
        if isinstance(value, list):
            return [shorten(each) for each in value]
        if not isinstance(value, dict):
            return value
        return {
            name: share(each) if name in SHARED_FIELDS and isinstance(each, dict) else shorten(each)
            for name, each in value.items()
        }

    def share(value: dict[str, Any]) -> dict[str, str]:
        text = json.dumps(value)
        digest = sha256(text.encode()).hexdigest()[:12]
        shared[digest] = text
        return {"shared": digest}

    lines = [
        json.dumps({"key": key, "record": shorten(record)})
        for key, record in sorted(records.items())
    ]
    heads = [f'{{"shared": "{digest}", "value": {text}}}' for digest, text in shared.items()]
    return sorted(heads) + lines


def decode_records(path: Path) -> tuple[dict[str, Any], int]:
    """The records of a file, and how many of its lines cannot be read."""
    records: dict[str, Any] = {}
    shared: dict[str, Any] = {}
    damaged = 0

    def restore(value: Any) -> Any:
        if isinstance(value, list):
            return [restore(each) for each in value]
        if not isinstance(value, dict):
            return value
        if value.keys() == {"shared"}:
            return shared[value["shared"]]
        return {name: restore(each) for name, each in value.items()}

    lines = path.read_bytes().splitlines() if path.exists() else []
    parsed: list[dict[str, Any]] = []
    for line in filter(None, lines):
        try:
            value = json.loads(line)
            if "shared" in value:
                shared[value["shared"]] = value["value"]
            else:
                parsed.append(value)
        except (ValueError, TypeError, KeyError):
            damaged += 1
    for value in parsed:
        try:
            records[value["key"]] = restore(value["record"])
        except (TypeError, KeyError):  # no record, or its shared value is damaged
            damaged += 1
    return records, damaged
