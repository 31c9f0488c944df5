"""Every way in which attributes, edges and ids can be wrong, and what the message says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from scipy import sparse

from xtcl.errors import DataError
from xtcl.graph.graph import Graph

GOOD = np.ones((3, 2))


def holed(value: float) -> np.ndarray[Any, Any]:
    attributes = np.ones((3, 2))
    attributes[1, 0] = attributes[2, 1] = value
    return attributes


@pytest.mark.parametrize("form", [np.array, sparse.csr_array, sparse.csc_array, torch.tensor])
@pytest.mark.parametrize(
    ("value", "match"),
    [
        (np.nan, r"\(1, 0\) is nan, \(2, 1\) is nan; impute"),
        (np.inf, r"\(1, 0\) is inf, \(2, 1\) is inf"),
        (-np.inf, r"\(1, 0\) is -inf"),
        (1e39, r"too large for float32.*\(1, 0\) is 1e\+39.*scale"),
    ],
)
def test_attributes_that_are_not_finite(form: Any, value: float, match: str) -> None:
    with pytest.raises(DataError, match=match):
        Graph.from_arrays(form(holed(value)))


def test_many_offenders_are_counted_not_listed() -> None:
    with pytest.raises(DataError, match=r"\(0, 4\) is nan, \.\.\. \(60 in all\)"):
        Graph.from_arrays(np.full((3, 20), np.nan))


@pytest.mark.parametrize(
    ("attributes", "match"),
    [
        (GOOD + 1j, "not complex128"),
        (np.array([["a", "b"], ["c", "d"]]), "real numbers, not <U1"),
        (np.array([[1, None], [2, 3]], object), "real numbers, not object"),
        (np.ones(3), "reshape"),
        (np.ones((3, 2, 1)), r"not \[3, 2, 1\]"),
        ([[1, 2], [3]], "cannot be read as an array"),
        (np.ma.masked_equal(GOOD, 1), "masked"),
        (sparse.csr_array(GOOD + 1j), "not complex128"),
        (sparse.coo_array(np.ones(3)), r"\[V, D\], not \[3\]"),
    ],
)
def test_attributes_of_the_wrong_kind(attributes: Any, match: str) -> None:
    with pytest.raises(DataError, match=match):
        Graph.from_arrays(attributes, [[0], [1]])


def test_masked_arrays_without_masked_cells_are_fine() -> None:
    assert Graph.from_arrays(np.ma.masked_equal(GOOD, 7)).num_attributes == 2


def test_damaged_sparse_attributes() -> None:
    matrix = sparse.csr_array(GOOD)
    matrix.indices[0] = 10**6
    with pytest.raises(DataError, match="damaged"):
        Graph.from_arrays(matrix)


@pytest.mark.parametrize(
    ("edges", "match"),
    [
        ([[0, 1], [1, -1]], r"\(1, -1\) in column 1"),
        ([[0, 1], [1, 3]], r"nodes 0\.\.2 \(there are 3 nodes\).*\(1, 3\) in column 1"),
        (np.array([[0], [2**64 - 1]], np.uint64), "18446744073709551615"),
        ([[0.0, 1.0], [1.0, 2.0]], r"not float64; use \.astype\(numpy\.int64\)"),
        ([[True, False], [False, True]], "not bool"),
        ([["a", "b"], ["b", "c"]], "number the nodes"),
        ([[0, 1], [1, 2], [2, 0]], "transpose"),
        ([[0, 1, 2]] * 3, r"\[2, E\], not \[3, 3\]\.$"),
        ([0, 1], r"not \[2\]"),
        ([[0, 1], [1]], "cannot be read"),
        (sparse.eye_array(3), "from_scipy"),
    ],
)
def test_edges_of_the_wrong_kind(edges: Any, match: str) -> None:
    with pytest.raises(DataError, match=match):
        Graph.from_arrays(GOOD, edges)


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({}, "neither attributes nor edges"),
        ({"attributes": np.zeros((3, 0))}, "neither"),
        ({"attributes": np.ones((1, 2))}, "at least two nodes, but there are 1"),
        ({"attributes": np.ones((0, 2))}, "at least two"),
        ({"edges": [[0], [0]]}, "at least two"),
        ({"edges": [[-1], [-1]]}, "at least two"),
        ({"edges": [[0], [2**40]]}, "too many"),
        ({"attributes": GOOD, "num_nodes": 4}, "num_nodes is 4, but there are 3 attribute rows"),
        ({"attributes": GOOD, "num_nodes": 3.0}, "num_nodes must be an integer"),
        ({"attributes": GOOD, "num_nodes": True}, "num_nodes must be an integer"),
        ({"edges": [[0], [1]], "num_nodes": -5}, "at least two"),
        ({"edges": [[0], [1]], "num_nodes": 3, "labels": [0, 1]}, "2 labels for 3"),
        ({"edges": [[0], [1]], "labels": "a"}, "at least two"),
        ({"attributes": GOOD, "node_ids": [1, 2]}, r"shape \[2\], but there are 3 nodes"),
        ({"attributes": GOOD, "node_ids": np.eye(3)}, "one id per node"),
        ({"attributes": GOOD, "node_ids": [7, 8, 7]}, "these repeat: 7"),
        ({"attributes": GOOD, "node_ids": ["a", "a", "b"]}, "these repeat: a"),
        ({"attributes": GOOD, "node_ids": np.array([1, "1", 1], object)}, "these repeat: 1"),
        ({"attributes": GOOD, "node_ids": np.array([{}, 1, 2], object)}, "plain values"),
        ({"attributes": GOOD, "node_ids": sparse.eye_array(3)}, "plain array"),
    ],
)
def test_parts_that_do_not_fit_together(arguments: dict[str, Any], match: str) -> None:
    with pytest.raises(DataError, match=match):
        Graph.from_arrays(**arguments)


def test_node_ids_are_kept() -> None:
    for ids, kind in (([30, 10, 20], "i"), (["c", "a", "b"], "U"), ([1.5, 2.5, 3.5], "f")):
        graph = Graph.from_arrays(GOOD, node_ids=ids)
        assert graph.node_ids is not None
        assert graph.node_ids.tolist() == ids
        assert graph.node_ids.dtype.kind == kind
    mixed = Graph.from_arrays(GOOD, node_ids=np.array(["a", 1, (2, 3)], object))
    assert mixed.node_ids is not None
    assert mixed.node_ids.tolist() == ["a", 1, (2, 3)]
    strings = Graph.from_arrays(GOOD, node_ids=np.array(["a", "b", "c"], object))
    assert strings.node_ids is not None
    assert strings.node_ids.dtype.kind == "U"
