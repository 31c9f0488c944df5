"""Labels in, codes and classes kept, original values out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped,unused-ignore]
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xtcl.errors import DataError
from xtcl.graph.graph import Graph


def labelled(labels: Any, classes: Any = None) -> Graph:
    return Graph.from_arrays(np.ones((len(labels), 1)), None, labels, classes=classes)


def codes_of(graph: Graph) -> list[int]:
    assert graph.labels is not None
    assert graph.labels.dtype == np.int64
    codes: list[int] = graph.labels.tolist()
    return codes


@pytest.mark.parametrize(
    ("labels", "codes", "classes"),
    [
        ([2, 0, 1, -1], [2, 0, 1, -1], (0, 1, 2)),
        ([7, 3, 3, -1], [1, 0, 0, -1], (3, 7)),
        (np.array([1, 2, 1, 3], np.uint8), [0, 1, 0, 2], (1, 2, 3)),
        ([1.0, np.nan, 0.0, -1.0], [1, -1, 0, -1], (0, 1)),
        ([True, False, True, True], [1, 0, 1, 1], (False, True)),
        (["b", "a", "", "b"], [1, 0, -1, 1], ("a", "b")),
        (["b", None, np.nan, "a"], [1, -1, -1, 0], ("a", "b")),
        ([4, None, 2, pd.NA], [1, -1, 0, -1], (2, 4)),
        ([1.0, None, 0, np.nan], [1, -1, 0, -1], (0, 1)),
        (pd.Series(["x", None, "y", "x"], dtype="string"), [0, -1, 1, 0], ("x", "y")),
        (pd.Series(["x", "y", "y", "x"], dtype="category"), [0, 1, 1, 0], ("x", "y")),
        ([None] * 4, [-1] * 4, ()),
        ([-1] * 4, [-1] * 4, ()),
        ([2**62, 2**62 + 1, None, 0], [1, 2, -1, 0], (0, 2**62, 2**62 + 1)),
    ],
)
def test_encoding(labels: Any, codes: list[int], classes: tuple[Any, ...]) -> None:
    graph = labelled(labels)
    assert codes_of(graph) == codes
    assert graph.classes == classes
    assert all(not isinstance(value, np.generic) for value in graph.classes)
    assert graph.has_labels == bool(classes)


def test_given_classes_make_labels_codes() -> None:
    graph = labelled([1, -1, 1], np.array(["cat", "dog", "owl"]))
    assert codes_of(graph) == [1, -1, 1]
    assert graph.classes == ("cat", "dog", "owl")
    assert graph.num_classes == 3


@pytest.mark.parametrize(
    ("classes", "expected"),
    [
        ((3, 7), [7, -1, 3]),
        (("cat", "dog"), ["dog", "", "cat"]),
        ((False, True), [True, None, False]),
        ((-1, 1), [1, None, -1]),
        (("", "dog"), ["dog", None, ""]),
        (((1, 2), (3, 4)), [(3, 4), None, (1, 2)]),
    ],
)
def test_label_values(classes: tuple[Any, ...], expected: list[Any]) -> None:
    graph = labelled([0, 1], classes)
    assert graph.label_values([1, -1, 0]).tolist() == expected
    assert len(graph.label_values([])) == 0
    with pytest.raises(DataError, match="2 at 0"):
        graph.label_values([2])


def test_label_values_without_labels() -> None:
    graph = Graph.from_arrays(np.ones((2, 1)))
    assert graph.label_values([-1]).tolist() == [None]


@given(
    st.one_of(
        st.lists(st.integers(-1, 9), min_size=2),
        st.lists(st.sampled_from(["", "a", "b", "ç", "long name"]), min_size=2),
    )
)
def test_values_of_the_codes_are_the_labels(labels: list[Any]) -> None:
    graph = labelled(labels)
    unknown = -1 if isinstance(labels[0], int) else ""
    if any(value != unknown for value in labels):
        assert graph.label_values(graph.labels).tolist() == labels
    assert list(graph.classes) == sorted(set(labels) - {unknown})


@pytest.mark.parametrize(
    ("labels", "classes", "match"),
    [
        ([0, 1], None, "2 labels for 3 nodes"),
        ([[0, 1], [1, 0], [1, 1]], None, "several labels per node"),
        ([[0], [1], [1]], None, r"shape \[V\], not \[3, 1\]"),
        ([0, -2, -3], None, "found -2 at 1, -3 at 2"),
        ([0.5, 1, np.inf], None, "found 0.5 at 0, inf at 2"),
        ([1e300, 0, 0], None, "1e\\+300 at 0"),
        (["a", 1, None], None, "not int, str"),
        ([2**70, None, 1], None, "64-bit"),
        ([1j, 0, 0], None, "complex"),
        (np.array([b"a", b"b", b"c"]), None, "strings, not"),
        (np.array([[0], [1], [1]])[0], None, "1 labels for 3 nodes"),
        ([0, 1, 2], ("a", "b"), "less than 2.*found 2 at 2"),
        ([0, -2, 1], ("a", "b"), "-2 at 1"),
        ([0.0, 1.0, 0.0], ("a", "b"), "codes must be integers"),
        ([0, 1, 0], ("a", "a"), "distinct"),
        ([0, 1, 0], (["a"], ["b"]), "plain values"),
        (None, ("a",), "without labels"),
        (np.ma.masked_equal([0, 1, 0], 1), None, "masked"),
    ],
)
def test_refused(labels: Any, classes: Any, match: str) -> None:
    with pytest.raises(DataError, match=match):
        Graph.from_arrays(np.ones((3, 1)), None, labels, classes=classes)


def test_sparse_labels_are_refused() -> None:
    from scipy import sparse

    with pytest.raises(DataError, match="plain array"):
        Graph.from_arrays(np.ones((3, 1)), None, sparse.eye_array(3))
