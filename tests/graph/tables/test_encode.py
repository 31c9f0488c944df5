"""What was learned of a table is plain data, is kept with the graph, and reads new nodes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from small_runs import small_model
from small_tables import EDGES, NODES, read, write

from xtcl.errors import DataError
from xtcl.estimator import XTCL
from xtcl.graph.encoding import ColumnEncoding, TableEncoding
from xtcl.graph.graph import Graph
from xtcl.graph.tables.checks import data_warnings
from xtcl.graph.tables.encode import encode_nodes
from xtcl.graph.tables.read import read_spec
from xtcl.graph.tables.spec import TableSpec


def encoding_of(folder: Path, nodes: str, **settings: Any) -> TableEncoding:
    found = read(folder, nodes, "u,v\na,b\n", **settings).graph.encoding
    assert found is not None
    return found


@pytest.fixture
def learned(tmp_path: Path) -> TableEncoding:
    encoding = read(tmp_path, label="topic").graph.encoding
    assert encoding is not None
    return encoding


def test_it_survives_json(learned: TableEncoding) -> None:
    assert TableEncoding.from_json(json.loads(json.dumps(learned.to_json()))) == learned
    assert len(json.dumps(learned.to_json())) < 3000


def test_a_file_of_an_earlier_version_is_read(learned: TableEncoding) -> None:
    stored = json.loads(json.dumps(learned.to_json()))
    for column in stored["columns"]:
        column["doubt"] = column.pop("warning")
    assert TableEncoding.from_json(stored) == learned


def test_it_is_saved_with_the_graph_and_with_a_model(tmp_path: Path) -> None:
    graph = read(tmp_path, label="topic").graph
    graph.save(tmp_path / "g.npz")
    assert Graph.load(tmp_path / "g.npz").encoding == graph.encoding
    small_model(relations=["link"]).fit(graph).save(tmp_path / "run")
    model = XTCL.load(tmp_path / "run")
    assert model.training_data_.graph.encoding == graph.encoding


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "magic"},
        {"scale": 0.0},
        {"scale": -1.0},
        {"center": float("nan")},
        {"center": "1"},
        {"missing": -1},
        {"missing": 0.5},
        {"categories": ["a", "a"]},
        {"categories": [1]},
        {"name": 3},
        {"extra": 1},
        {"categories": None},
    ],
    ids=str,
)
def test_damage_is_refused(change: dict[str, Any], learned: TableEncoding) -> None:
    stored = json.loads(json.dumps(learned.to_json()))
    stored["columns"][0] |= change
    with pytest.raises(DataError):
        TableEncoding.from_json(stored)


@pytest.mark.parametrize("stored", [{}, {"columns": 3}, {"columns": [3]}, {"columns": []}])
def test_other_things_are_refused(stored: dict[str, Any]) -> None:
    with pytest.raises(DataError, match="encoding of a table is damaged"):
        TableEncoding.from_json(stored)


def test_a_graph_refuses_an_encoding_of_another_width(learned: TableEncoding) -> None:
    with pytest.raises(DataError, match="not canonical"):
        Graph(
            attributes=np.zeros((2, 1), np.float32),
            edges=np.array([[0], [1]]),
            encoding=learned,
        )


def test_new_nodes_are_read_like_the_old_ones(learned: TableEncoding, tmp_path: Path) -> None:
    graph = read(tmp_path, label="topic").graph
    again = encode_nodes(tmp_path / "nodes.csv", learned)
    assert again.ids.tolist() == ["p1", "p2", "p3", "p4", "=cmd()", "p6"]
    assert np.array_equal(np.asarray(again.attributes), np.asarray(graph.attributes))
    new = pd.DataFrame({"city": ["Paris", "Rome"], "age": [40.2, None], "id": [7, 9]})
    found = encode_nodes(new.assign(member=["YES", 0], note=["", "y"]).astype(str), learned)
    assert found.ids.tolist() == [7, 9]
    names = list(learned.attributes)
    first, second = (dict(zip(names, row, strict=True)) for row in np.asarray(found.attributes))
    assert abs(first["age"]) < 1e-6
    assert (first["city is missing"], first["member"], first["note"]) == (1, 1, 0)
    assert (second["city=Rome"], second["member"], second["note"]) == (1, 0, 1)
    assert second["age is missing"] == 1


@pytest.mark.parametrize(
    ("column", "value", "sentence"),
    [
        ("age", "old", "column 'age' is 'old', but was a number when the encoding was learned"),
        ("member", "perhaps", "column 'member' is 'perhaps', but was a truth"),
        ("age", "1e90", "column 'age' is 1e\\+90, too large for an attribute"),
    ],
)
def test_new_nodes_of_another_kind(
    column: str, value: str, sentence: str, learned: TableEncoding, tmp_path: Path
) -> None:
    rows = {"id": "a", "age": "1", "city": "Rome", "member": "no", "note": "", column: value}
    text = ",".join(rows) + "\n" + ",".join(rows.values()) + "\n"
    with pytest.raises(DataError, match=f"new.csv, line 2: {sentence}"):
        encode_nodes(write(tmp_path, "new.csv", text), learned)
    with pytest.raises(DataError, match="has no column 'age' for an attribute"):
        encode_nodes(pa.table({"id": ["a"], "city": ["Rome"]}), learned)


def kinds(encoding: TableEncoding) -> dict[str, str]:
    return {column.name: column.kind for column in encoding.columns}


def test_settings_change_the_rules(tmp_path: Path) -> None:
    nodes = "id,dept,x,city\na,1,10,R\nb,2,20,-\nc,1,40,R\nd,2,10,O\n"
    assert kinds(encoding_of(tmp_path, nodes))["dept"] == "number"
    chosen = encoding_of(tmp_path, nodes, categorical=["dept"], scale=False, missing=["-"])
    assert chosen.attributes == (*("dept=1", "dept=2", "x", "city=O", "city=R", "city is missing"),)
    plain = read(tmp_path, nodes, "u,v\na,b\n", scale=False).graph.attributes
    assert np.asarray(plain)[:, 1].tolist() == [10, 20, 40, 10]
    few = encoding_of(tmp_path, nodes, max_categories=2)
    assert kinds(few)["city"] == "left out"
    assert "more than 2 different texts (the first: 'R' in line 2)" in few.columns[2].why
    ignored = encoding_of(tmp_path, nodes, ignore=["x"])
    assert ignored.columns[1] == ColumnEncoding("x", "left out", why="as you asked")


def test_categories_of_typed_numbers_agree_with_their_text() -> None:
    edges = pa.table({"u": ["a"], "v": ["b"]})
    ids = ["a", "b", "c", "d"]
    for values in ([1, 2, 1, 2], [1.0, 2.0, 1.0, 2.0], ["1", "2", "1", "2"]):
        nodes = pa.table({"id": ids, "dept": values})
        spec = TableSpec(nodes=nodes, edges=edges, categorical=("dept",))
        encoding = read_spec(spec).graph.encoding
        assert encoding is not None
        assert encoding.attributes == ("dept=1", "dept=2")


def test_texts_that_name_nodes_are_left_out(tmp_path: Path) -> None:
    rows = [f"n{at},title {at % 28}" for at in range(30)]
    encoding = read(tmp_path, "id,title\n" + "\n".join(rows), "u,v\nn0,n1\n").graph.encoding
    assert encoding is not None
    assert "28 different texts in 30 nodes" in encoding.columns[0].why


def test_a_column_that_counts_the_rows_is_left_out(tmp_path: Path) -> None:
    rows = [f"{at},n{at},{at + at % 2}" for at in range(30)]
    graph = read(tmp_path, ",id,x\n" + "\n".join(rows), "u,v\nn0,n1\n").graph
    assert graph.encoding is not None
    assert graph.encoding.attributes == ("x",)
    assert graph.encoding.columns[0].why == "it counts the rows, as an index does"


def test_labels(tmp_path: Path) -> None:
    def classes(*labels: str) -> Any:
        rows = "".join(f"{at},{label}\n" for at, label in enumerate(labels))
        return read(tmp_path, "id,y\n" + rows, "u,v\n0,1\n", label="y").graph

    assert classes("3", "", "10", "3").classes == (3, 10)
    assert classes("1.0", "", "0.0").classes == (0, 1)
    assert classes("-1", "0", "1").classes == (-1, 0, 1)
    assert classes("b", "a", "None", "N/A").labels.tolist() == [1, 0, -1, -1]
    assert classes("true", "false").classes == ("false", "true")
    assert classes("01", "1").classes == ("01", "1")


def test_weights_are_checked_and_not_used(tmp_path: Path) -> None:
    edges = "from,to,weight,since\np1,p2,0.5,1999\np3,p2,0,2001\n"
    found = read(tmp_path, NODES.replace("=cmd()", "p5"), edges)
    assert found.graph.num_edges == 1
    assert found.notes == (
        f"The weights in column 'weight' of {found.edges} are not used: the method uses links, "
        "not their strength.",
        f"1 row(s) of {found.edges} have the weight 0 and are no links.",
        f"{found.edges} has further columns, which are not used: 'since'.",
    )
    assert read(tmp_path, NODES, EDGES).link_columns.weight is None


def numbers_but(cell: str, count: int = 40) -> str:
    """A table whose column x has numbers and, in line 12, one other cell."""
    cells = [cell if row == 10 else f"{row % 7}.5" for row in range(count)]
    return "id,x\n" + "".join(f"n{row},{value}\n" for row, value in enumerate(cells))


@pytest.mark.parametrize("cell", ["4O", '"31,5"', "old"])
def test_a_slip_among_numbers_looks_wrong(cell: str, tmp_path: Path) -> None:
    graph = read(tmp_path, numbers_but(cell), "u,v\nn0,n1\n").graph
    (doubt,) = [each for each in data_warnings(graph, "links") if "column" in each]
    assert "nodes.csv, line 12: column 'x' is " + repr(cell.strip('"')) in doubt
    assert "39 of 40 values are numbers" in doubt
    assert "Correct the cell or leave it empty" in doubt
    assert graph.encoding is not None
    kept = TableEncoding.from_json(json.loads(json.dumps(graph.encoding.to_json())))
    assert kept == graph.encoding  # so that a report can repeat it


def test_a_formula_among_numbers_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nodes.csv, line 12: column 'x' is '=A1\+1', a formula"):
        read(tmp_path, numbers_but("=A1+1"), "u,v\nn0,n1\n")


def test_other_odd_cells_look_wrong_and_plain_names_do_not(tmp_path: Path) -> None:
    rows = [f"n{row},{row % 5},1 kg,{'=cmd()' if row == 3 else 'a'},{row}" for row in range(30)]
    rows = [row.replace("1 kg", f'"{number % 3},5"') for number, row in enumerate(rows)]
    nodes = "id,x,comma,kind,code\n" + "\n".join(rows) + "\n"
    encoding = read(tmp_path, nodes, "u,v\nn0,n1\n").graph.encoding
    assert encoding is not None
    columns = {each.name: each.warning for each in encoding.columns}
    assert columns["x"] == columns["code"] == ""
    assert "line 2: column 'comma' is '0,5', a number with a decimal comma" in columns["comma"]
    assert "line 5: column 'kind' is '=cmd()', which looks like a formula" in columns["kind"]
