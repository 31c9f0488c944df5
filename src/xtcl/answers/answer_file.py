"""Answers as a file: CSV, Parquet or npz, whole or not there."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from xtcl.answers.answer_table import AnswerTable
from xtcl.errors import UsageError
from xtcl.files import atomic_path

KINDS = (".csv", ".parquet")


def check_file(path: Path, kinds: Sequence[str] = KINDS) -> None:
    """Refuse a place where no answers can be written; before any work, and writing nothing."""
    if path.suffix.lower() not in kinds:
        raise UsageError(f"--out '{path}' must end in {' or '.join(kinds)}.")
    if path.is_dir():
        raise UsageError(f"--out '{path}' is a folder; name a file in it.")
    if not path.parent.is_dir():
        raise UsageError(f"There is no folder '{path.parent}' for --out; make it first.")


def write_answers(path: Path, table: AnswerTable) -> None:
    """Write the table as its name's ending says."""
    import pyarrow.parquet as pq

    check_file(path)
    with atomic_path(path) as temporary:
        if path.suffix.lower() == ".csv":
            temporary.write_bytes(table.csv())
        else:
            pq.write_table(table.arrow(), temporary)
