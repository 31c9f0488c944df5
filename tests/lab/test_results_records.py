"""Files of records under results/ hold every run that was ever kept, and read back as written."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from xtcl.lab.experiments.records import RecordFile, encode_records

RESULTS = Path(__file__).parents[2] / "results"
DIGESTS: dict[str, str] = json.loads(
    (Path(__file__).parent / "record_digests.json").read_text(encoding="utf-8")
)
"""Digests of the 2,538 records that had a file each, by the file that they are in now."""


def digest(key: str, record: Any) -> str:
    return sha256(json.dumps([key, record], sort_keys=True).encode()).hexdigest()[:16]


@pytest.mark.parametrize("name", DIGESTS)
def test_no_record_is_lost_or_changed(name: str) -> None:
    records = RecordFile(RESULTS / name).read()
    assert set(DIGESTS[name].split()) <= {digest(*item) for item in records.items()}


@pytest.mark.parametrize("name", DIGESTS)
def test_a_file_is_sorted_and_written_as_fold_writes_it(name: str) -> None:
    path = RESULTS / name
    lines = path.read_text(encoding="utf-8").splitlines()
    assert lines == encode_records(RecordFile(path).read())


def test_splits_that_only_the_runs_had_are_there() -> None:
    for task in ("nodes", "links"):
        folder = RESULTS / "reproduction" / f"table-{task}"
        found = RecordFile(folder / f"table-{task}.jsonl").read().values()
        later = [each["what"] for each in found if each["what"]["seed"] >= 5]
        assert len(later) == 60
        assert {what["dataset"] for what in later} == {"cora", "citeseer"}
