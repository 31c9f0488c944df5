"""A file of records: what is appended is kept, whatever happens then."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from xtcl.lab.experiments.records import RecordFile

VERSIONS = {"torch": "2", "code": "abc"}


def test_shared_values_have_a_line_of_their_own(tmp_path: Path) -> None:
    file = RecordFile(tmp_path / "a.jsonl")
    records = {
        "b": {"found": {"recipe": {"plans": [1]}}, "versions": VERSIONS},
        "a": {"found": {"recipe": {"plans": [1]}}, "versions": VERSIONS},
        "c": [1.5, None, "versions", {"versions": "2", "config": None}],
    }
    for key, record in records.items():
        file.append(key, record)
    file.fold()
    assert file.read() == records
    assert list(file.read()) == ["a", "b", "c"]
    lines = [json.loads(line) for line in file.path.read_text().splitlines()]
    assert [line.get("key") for line in lines] == [None, None, "a", "b", "c"]


def test_a_new_record_is_one_added_line(tmp_path: Path) -> None:
    file = RecordFile(tmp_path / "a.jsonl")
    for key in ("one", "three"):
        file.append(key, {"versions": VERSIONS})
    file.fold()
    before = file.path.read_text().splitlines()
    file.append("other", {"versions": VERSIONS})
    file.fold()
    after = file.path.read_text().splitlines()
    assert [line for line in after if line not in before] == [after[2]]
    assert [line for line in after if line in before] == before


def test_a_record_is_readable_before_it_is_folded_and_replaces_the_last(tmp_path: Path) -> None:
    file = RecordFile(tmp_path / "a.jsonl")
    file.append("a", 1)
    file.fold()
    file.append("a", 2)
    assert RecordFile(file.path).read() == {"a": 2}
    assert file.partial.exists()
    file.fold()
    assert RecordFile(file.path).read() == {"a": 2}
    assert [each.name for each in tmp_path.iterdir()] == ["a.jsonl"]


@pytest.mark.parametrize("cut", range(1, 26, 4))
def test_a_line_that_was_cut_off_does_not_take_the_next_with_it(tmp_path: Path, cut: int) -> None:
    file = RecordFile(tmp_path / "a.jsonl")
    file.append("a", {"found": 1})
    file.append("b", {"found": 2})
    file.partial.write_bytes(file.partial.read_bytes()[:-cut])
    file.append("c", {"found": 3})
    kept = {"a": {"found": 1}, "c": {"found": 3}}
    # Without its newline alone the line is whole.
    assert file.read() == (kept if cut > 1 else kept | {"b": {"found": 2}})


def test_two_writers_lose_nothing(tmp_path: Path) -> None:
    one, other = RecordFile(tmp_path / "a.jsonl"), RecordFile(tmp_path / "a.jsonl")
    one.append("a", 1)
    other.append("b", 2)
    one.fold()
    other.append("c", 3)
    other.fold()
    assert one.read() == {"a": 1, "b": 2, "c": 3}


def test_a_damaged_file_is_kept_aside(tmp_path: Path) -> None:
    file = RecordFile(tmp_path / "a.jsonl")
    file.append("a", {"versions": VERSIONS})
    file.append("b", 2)
    file.fold()
    shared, *rest = file.path.read_text().splitlines()
    file.path.write_text("\n".join([shared[:-5], *rest]))
    assert file.read() == {"b": 2}
    damaged = file.path.read_text()
    file.append("c", 3)
    file.fold()
    assert file.read() == {"b": 2, "c": 3}
    assert (tmp_path / "a.jsonl.damaged").read_text() == damaged


def test_nothing_to_fold_writes_nothing(tmp_path: Path) -> None:
    RecordFile(tmp_path / "a.jsonl").fold()
    RecordFile(tmp_path / "nowhere" / "a.jsonl").fold()
    assert list(tmp_path.iterdir()) == []
