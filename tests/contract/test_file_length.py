"""No source file is longer than CONTRIBUTING.md allows."""

from __future__ import annotations

from pathlib import Path

MAX_LINES = 500
REPOSITORY = Path(__file__).parents[2]


def test_no_source_file_is_longer_than_500_lines() -> None:
    lengths = {
        path.relative_to(REPOSITORY).as_posix(): path.read_text(encoding="utf-8").count("\n")
        for folder in ("src", "benchmarks", "tools")
        for path in sorted((REPOSITORY / folder).rglob("*.py"))
    }
    assert lengths
    assert {path: lines for path, lines in lengths.items() if lines > MAX_LINES} == {}
