"""Moves the runs of some methods of a table to earlier.jsonl beside its own file.

    PYTHONPATH=src python tools/set_runs_aside.py table-nodes cocos,meta-pn

After a method has changed: `xtcl reproduce` then makes its runs anew, and no record is lost. Their
digests in tests/lab/record_digests.json move with them.
"""

from __future__ import annotations

import json
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

from xtcl.lab.experiments.records import RecordFile, encode_records

ROOT = Path(__file__).parents[1]


def set_aside(name: str, methods: list[str], root: Path = ROOT) -> int:
    """The number of runs that were moved."""
    here, there = (f"reproduction/{name}/{file}.jsonl" for file in (name, "earlier"))
    path, old = root / "results" / here, root / "results" / there
    records = RecordFile(path).read()
    moved = {key: each for key, each in records.items() if each["what"]["method"] in methods}
    kept = {key: each for key, each in records.items() if key not in moved}
    _write(old, RecordFile(old).read() | moved)
    _write(path, kept)
    file = root / "tests" / "lab" / "record_digests.json"
    digests: dict[str, str] = json.loads(file.read_text(encoding="utf-8"))
    gone = {_digest(key, each) for key, each in moved.items()}
    listed = digests[here].split()
    digests[here] = " ".join(each for each in listed if each not in gone)
    digests[there] = " ".join(
        sorted({*digests.get(there, "").split(), *(each for each in listed if each in gone)})
    )
    file.write_text(json.dumps(digests, indent=1) + "\n", encoding="utf-8")
    return len(moved)


def _write(path: Path, records: dict[str, Any]) -> None:
    lines = (f"{line}\n" for line in encode_records(records))
    path.write_text("".join(lines), encoding="utf-8")


def _digest(key: str, record: Any) -> str:
    return sha256(json.dumps([key, record], sort_keys=True).encode()).hexdigest()[:16]


if __name__ == "__main__":
    print(set_aside(sys.argv[1], sys.argv[2].split(",")), "runs were set aside.")
