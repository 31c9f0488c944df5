"""Graph.save and Graph.load, and what a damaged file gives."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import sparse

from xtcl.errors import DataError
from xtcl.graph.graph import Graph


def example(**changes: Any) -> Graph:
    arguments: dict[str, Any] = {
        "attributes": np.random.default_rng(0).normal(size=(4, 3)),
        "edges": [[0, 1, 1, 2, 3], [1, 0, 2, 2, 0]],
        "labels": ["b", None, "ä", "b"],
        "node_ids": ["n1", "n2", "n3", "n4"],
        "name": "gräph",
    }
    return Graph.from_arrays(**{**arguments, **changes})


def assert_same(one: Graph, other: Graph) -> None:
    assert one.fingerprint() == other.fingerprint()
    assert isinstance(one.attributes, np.ndarray) == isinstance(other.attributes, np.ndarray)
    assert (one.classes, one.name, one.repairs) == (other.classes, other.name, other.repairs)
    for left, right in ((one.labels, other.labels), (one.node_ids, other.node_ids)):
        assert (left is None) == (right is None)
        assert left is None or left.dtype == right.dtype  # type: ignore[union-attr]
        assert left is None or np.array_equal(left, right)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "graph",
    [
        example(),
        example(attributes=sparse.random_array((4, 9), density=0.4, rng=np.random.default_rng(1))),
        example(attributes=None, labels=None, node_ids=None),
        example(labels=[9, -1, 4, 9], node_ids=[5, 3, 2, 8]),
        example(labels=[-1] * 4),
        example(labels=[0, 1, 0, 1], classes=(False, 2.5, "unused")),
        example(edges=None),
    ],
    ids=repr,
)
def test_round_trip(graph: Graph, tmp_path: Path) -> None:
    graph.save(tmp_path / "g.npz")
    assert_same(Graph.load(tmp_path / "g.npz"), graph)
    assert [path.name for path in tmp_path.iterdir()] == ["g.npz"]


def test_the_same_graph_gives_the_same_bytes(tmp_path: Path) -> None:
    example().save(tmp_path / "one")
    example().save(str(tmp_path / "two"))
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    with np.load(tmp_path / "one", allow_pickle=False) as archive:
        assert json.loads(str(archive["header"]))["classes"] == ["b", "ä"]


def test_other_ids_are_left_out_with_a_warning(tmp_path: Path) -> None:
    graph = example(node_ids=[0.5, 1.5, 2.5, 3.5])
    with pytest.warns(UserWarning, match="Node ids of type float64 are not saved"):
        graph.save(tmp_path / "g.npz")
    assert Graph.load(tmp_path / "g.npz").node_ids is None


def test_classes_that_json_cannot_hold_are_refused(tmp_path: Path) -> None:
    graph = example(labels=[0, 1, 0, 1], classes=((1, 2), (3, 4)))
    with pytest.raises(DataError, match=r"Class \(1, 2\) cannot be saved"):
        graph.save(tmp_path / "g.npz")
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("saved") / "g.npz"
    example().save(path)
    return path.read_bytes()


def load_bytes(raw: bytes, folder: Path) -> Graph:
    path = folder / "damaged.npz"
    path.write_bytes(raw)
    return Graph.load(path)


def test_every_truncation_is_a_data_error(saved: bytes, tmp_path: Path) -> None:
    for length in [0, 1, 3, 4, *range(30, len(saved), 97), len(saved) - 1]:
        with pytest.raises(DataError, match=r"damaged\.npz is damaged or not a graph file"):
            load_bytes(saved[:length], tmp_path)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_flipped_byte_gives_the_same_graph_or_a_data_error(
    saved: bytes, tmp_path: Path, data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(saved) - 1))
    raw = bytearray(saved)
    raw[at] ^= data.draw(st.integers(1, 255))
    try:
        graph = load_bytes(bytes(raw), tmp_path)
    except DataError:
        return
    assert_same(graph, example())  # a byte that nothing reads, such as a date


def rewritten(saved: bytes, changes: dict[str, Any]) -> bytes:
    """The saved file with other members (None: without it), as somebody might tamper with it."""
    with np.load(io.BytesIO(saved)) as archive:
        members = {key: archive[key] for key in archive.files}
    members.update(changes)
    result = io.BytesIO()
    with zipfile.ZipFile(result, "w") as archive:
        for key, value in members.items():
            if value is not None:
                with archive.open(f"{key}.npy", "w") as member:
                    np.lib.format.write_array(member, np.asarray(value))
    return result.getvalue()


def header(**changes: Any) -> str:
    repairs = {"duplicates_merged": 0, "loops_dropped": 0, "directions_removed": 0}
    good = {"format": "xtcl-graph", "version": 1, "name": "g", "classes": ["a", "b"]}
    return json.dumps({**good, "arrays": ["edges"], "repairs": repairs, **changes})


SPARSE = {
    "header": header(),
    "attributes": None,
    "attributes_data": np.ones(2, np.float32),
    "attributes_indices": np.array([0, 1], np.int32),
    "attributes_indptr": np.array([0, 1, 2, 2, 2], np.int32),
    "attributes_shape": np.array([4, 2]),
}


def test_tampering_that_keeps_the_rules_still_loads(saved: bytes, tmp_path: Path) -> None:
    assert load_bytes(rewritten(saved, {"header": header()}), tmp_path).classes == ("a", "b")
    assert load_bytes(rewritten(saved, SPARSE), tmp_path).num_attributes == 2


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"header": None}, "no header"),
        ({"edges": None}, "no edges"),
        ({"attributes": None}, "no attributes"),
        ({"labels": None}, "no labels"),
        ({"attributes": None, "header": header()}, "attributes_indices"),
        ({"header": "not json"}, "damaged"),
        ({"header": "[]"}, "damaged"),
        ({"header": header(format="other")}, "xtcl-graph 1 only"),
        ({"header": header(version=2)}, "xtcl-graph 1 only"),
        ({"header": header(classes=["a"])}, "less than 1.*1 at 2"),
        ({"header": header(classes=[["a"], ["b"]])}, "plain values"),
        ({"header": header(classes=7)}, "damaged"),
        ({"header": header(repairs={"other": 1})}, "other"),
        ({"header": header(repairs={"loops_dropped": -1})}, "negative"),
        ({"edges": np.array([[0.0], [1.0]])}, "integers"),
        ({"edges": np.array([[1], [1]])}, "not canonical"),
        ({"edges": np.array([[0], [4]])}, "nodes 0..3"),
        ({"labels": np.array([0, 1])}, "2 labels for 4"),
        ({"labels": np.array([0.0, 1.0, 0.0, 0.0])}, "integers"),
        ({"attributes": np.full((4, 2), np.nan, np.float32)}, "finite"),
        ({"node_ids": np.array([1, 1, 2, 3])}, "repeat"),
        ({"edges": np.array([[0, None]], object)}, "allow_pickle"),
        ({**SPARSE, "attributes_indices": np.array([0, 9], np.int32)}, "indices|indexes|damaged"),
        ({**SPARSE, "attributes_indices": np.array([0.0, 1.0])}, "not integers"),
        ({**SPARSE, "attributes_indptr": np.array([0, 2, 1, 2, 2], np.int32)}, "damaged"),
        ({**SPARSE, "attributes_shape": np.array([4, 2, 1])}, "damaged"),
        ({**SPARSE, "attributes_shape": np.array([5, 2])}, "damaged"),
    ],
)
def test_tampering_is_a_data_error(
    saved: bytes, changes: dict[str, Any], match: str, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=match):
        load_bytes(rewritten(saved, changes), tmp_path)


def test_files_that_are_something_else(tmp_path: Path) -> None:
    np.save(tmp_path / "plain.npy", np.eye(2))
    (tmp_path / "text.npz").write_text("hello")
    for name in ("plain.npy", "text.npz"):
        with pytest.raises(DataError, match="not a graph file"):
            Graph.load(tmp_path / name)
    with pytest.raises(DataError, match=r"missing\.npz cannot be read: No such file"):
        Graph.load(tmp_path / "missing.npz")
    with pytest.raises(DataError, match="cannot be read"):
        Graph.load(tmp_path)
