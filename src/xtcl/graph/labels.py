"""Labels: one class per node, as codes into the classes, -1 where unknown."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from xtcl.errors import DataError, first_few
from xtcl.graph.validation import IntArray, first_offenders, to_array

_UNKNOWN = -1
_Encoded = tuple[IntArray | None, tuple[Hashable, ...]]


def encode_labels(
    labels: object, num_nodes: int, classes: Sequence[Hashable] | None = None
) -> _Encoded:
    """The codes of the labels and the original value of each code; see `Graph.from_arrays`."""
    values = None if classes is None else _check_classes(classes)
    if labels is None:
        if values:
            raise DataError("Classes were given without labels; give both or neither.")
        return None, ()
    given = to_array(labels, "Labels")
    if given.ndim == 2 and given.shape[1] != 1:
        raise DataError(
            f"Labels have the shape {list(given.shape)}: several labels per node are not "
            "supported; give one class per node (argmax(axis=1) for one-hot rows)."
        )
    if given.ndim != 1:
        raise DataError(f"Labels must have the shape [V], not {list(given.shape)}; flatten them.")
    if len(given) != num_nodes:
        raise DataError(f"There are {len(given)} labels for {num_nodes} nodes; give one per node.")
    if values is not None:
        return _check_codes(given, values), values
    known, present = _known_values(given)
    distinct, found = np.unique(present, return_inverse=True)
    codes = np.full(num_nodes, _UNKNOWN, np.int64)
    codes[known] = found
    return codes, tuple(distinct.tolist())


def values_of(codes: object, classes: tuple[Hashable, ...]) -> np.ndarray[Any, Any]:
    """The original values of codes, unknown as in `Graph.label_values`."""
    checked = _check_codes(to_array(codes, "Label codes"), classes)
    if classes and all(type(value) is int and 0 <= value < 2**63 for value in classes):
        return np.array([*classes, _UNKNOWN], np.int64)[checked]
    if classes and all(isinstance(value, str) and value for value in classes):
        return np.array([*classes, ""])[checked]
    values = np.empty(len(classes) + 1, object)  # the last one, None, is what code -1 reads
    values[:-1] = classes
    return values[checked]


def _check_classes(classes: Sequence[Hashable]) -> tuple[Hashable, ...]:
    values = tuple(value.item() if isinstance(value, np.generic) else value for value in classes)
    try:
        distinct = set(values)
    except TypeError as error:
        raise DataError(f"Classes must be plain values, not {first_few(values)}.") from error
    if len(distinct) != len(values):
        raise DataError(f"Classes must be distinct, not {first_few(values)}.")
    return values


def _check_codes(codes: np.ndarray[Any, Any], classes: tuple[Hashable, ...]) -> IntArray:
    if codes.size and codes.dtype.kind not in "iu":
        raise DataError(f"Label codes must be integers, not {codes.dtype}; or leave out classes.")
    wrong = np.flatnonzero((codes < _UNKNOWN) | (codes >= len(classes)))
    if wrong.size:
        shown = first_offenders(wrong, lambda at: f"{codes.flat[at]} at {at}")
        raise DataError(
            f"Label codes must be -1 (unknown) or less than {len(classes)}, the number of "
            f"classes, but found {shown}."
        )
    return codes.astype(np.int64)


def _known_values(given: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Which nodes have a label, and those labels as a sortable array of one kind."""
    if given.dtype.kind in "OT":
        given = _one_kind(given.astype(object))
    if given.dtype.kind == "U":
        known = given != ""
    elif given.dtype.kind == "b":
        known = np.ones(len(given), bool)
    elif given.dtype.kind in "iuf":
        given = _whole_numbers(given)
        known = given != _UNKNOWN
    else:
        raise DataError(f"Labels must be integers or strings, not {given.dtype}.")
    return known, given[known]


def _whole_numbers(given: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    if given.dtype.kind == "f":
        given = np.where(np.isnan(given), _UNKNOWN, given)
        whole = (given == np.floor(given)) & (np.abs(given) < 2**53)
        fractional = np.flatnonzero(~whole)
        if fractional.size:
            shown = first_offenders(fractional, lambda at: f"{given[at]} at {at}")
            raise DataError(f"Labels are classes, not measurements, but found {shown}; bin them.")
        given = given.astype(np.int64)
    negative = np.flatnonzero(given < _UNKNOWN)
    if negative.size:
        shown = first_offenders(negative, lambda at: f"{given[at]} at {at}")
        raise DataError(f"Labels must be -1 (unknown) or not negative, but found {shown}.")
    return given


def _one_kind(given: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """An object array as strings or numbers, its missing values as those kinds have them."""
    missing = np.array([_is_missing(value) for value in given], bool)
    present = given[~missing]
    if all(isinstance(value, str) for value in present):
        return np.where(missing, "", given).astype(np.str_)
    if all(isinstance(value, (int, float, np.number, np.bool_)) for value in present):
        whole = all(isinstance(value, (int, np.integer, np.bool_)) for value in present)
        try:
            return np.where(missing, _UNKNOWN, given).astype(np.int64 if whole else np.float64)
        except OverflowError as error:
            raise DataError("Labels must fit 64-bit integers; use strings instead.") from error
    kinds = first_few(sorted({type(value).__name__ for value in present}))
    raise DataError(f"Labels must be all strings or all numbers, not {kinds}; convert them first.")


def _is_missing(value: object) -> bool:
    if value is None or type(value).__name__ == "NAType":  # pandas.NA
        return True
    return isinstance(value, (float, np.floating)) and bool(np.isnan(value))
