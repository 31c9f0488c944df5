"""Tables of answers: safe in a spreadsheet, whole as files."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xtcl.errors import UsageError
from xtcl.inference.tables import (
    ResultTable,
    check_file,
    embedding_table,
    write_embeddings,
    write_table,
)

HOSTILE = ["=cmd()", "+1", "-x", "@x", "'q", "\tx", "\rx", "plain", "a,b", 'say "x"', "two\nlines"]


def cells(table: ResultTable) -> list[list[str]]:
    return list(csv.reader(io.StringIO(table.csv().decode(), newline="")))


def test_no_cell_begins_as_a_formula_does_and_taking_off_the_mark_gives_the_text() -> None:
    table = ResultTable({"node": np.array(HOSTILE), "=p_x": np.zeros(len(HOSTILE))})
    head, *rows = cells(table)
    assert head == ["node", "'=p_x"]
    for text, (cell, _) in zip(HOSTILE, rows, strict=True):
        assert cell[0] not in "=+-@\t\r"
        assert (cell[1:] if cell.startswith("'") else cell) == text
    assert [row[0] for row in rows[7:]] == HOSTILE[7:]  # harmless ones are as they are


@given(st.lists(st.text(st.characters(exclude_categories=["Cs", "Cc"])), min_size=1))
def test_any_text_comes_back(texts: list[str]) -> None:
    table = ResultTable({"node": np.array(texts, dtype=object)})
    _, *rows = cells(table)
    found = [row[0] if row else "" for row in rows]
    assert [cell[1:] if cell.startswith("'") else cell for cell in found] == texts


def test_numbers_are_no_formulas_and_nothing_is_an_empty_cell() -> None:
    known = np.array(["a", None], dtype=object)
    table = ResultTable({"node": np.array([-5, 3]), "known": known})
    assert table.csv() == b'"node","known"\n-5,"a"\n3,\n'
    assert table.rows() == [{"node": -5, "known": "a"}, {"node": 3, "known": None}]


def test_texts_that_are_plain_negative_numbers_are_as_they_are() -> None:
    texts = ["-5", "-3.2", "-5+cmd()", "-5\n=cmd()", "-", "'-5"]
    table = ResultTable({"node": np.array(texts), "-1": np.zeros(len(texts))})
    head, *rows = cells(table)
    assert head == ["node", "-1"]
    assert [row[0] for row in rows] == [*texts[:2], *("'" + text for text in texts[2:])]


def test_parquet_and_frames_keep_ids_as_they_are(tmp_path: Path) -> None:
    table = ResultTable({"node": np.array(HOSTILE), "x": np.arange(len(HOSTILE)) / 7})
    write_table(tmp_path / "t.parquet", table)
    assert pq.read_table(tmp_path / "t.parquet").to_pydict()["node"] == HOSTILE
    frame = table.frame()
    assert frame.index.name == "node"
    assert frame.index.tolist() == HOSTILE
    pd.testing.assert_series_equal(
        frame["x"], pd.read_parquet(tmp_path / "t.parquet").set_index("node")["x"]
    )


@pytest.mark.parametrize("ending", ["csv", "parquet", "npz"])
def test_embeddings_come_back(ending: str, tmp_path: Path) -> None:
    names, rows = np.array(["b", "a"]), np.array([[0.1, -2.5], [3, 1e-9]], dtype=np.float32)
    path = tmp_path / f"e.{ending}"
    write_embeddings(path, names, rows)
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
    if ending == "npz":
        with np.load(path) as found:
            np.testing.assert_array_equal(found["node"], names)
            np.testing.assert_array_equal(found["embedding"], rows)
        return
    frame = pd.read_csv(path) if ending == "csv" else pd.read_parquet(path)
    assert frame.columns.tolist() == ["node", "z000", "z001"]
    np.testing.assert_array_equal(frame[["z000", "z001"]].to_numpy(np.float32), rows)
    assert embedding_table(names, rows).frame().loc["a", "z000"] == 3
    assert embedding_table(names, rows, full=True).frame().loc["a", "z0"] == 3


def test_a_file_that_cannot_be_is_refused_before_it_is_begun(tmp_path: Path) -> None:
    (tmp_path / "d.csv").mkdir()
    for path, why in (
        (tmp_path / "x.xlsx", "must end in .csv or .parquet"),
        (tmp_path / "d.csv", "is a folder"),
        (tmp_path / "no" / "x.csv", "There is no folder"),
    ):
        with pytest.raises(UsageError, match=why):
            check_file(path)


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("old")
    with pytest.raises(Exception, match="length"):
        write_table(path, ResultTable({"node": np.arange(2), "x": np.arange(3)}))
    assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["t.csv"]
