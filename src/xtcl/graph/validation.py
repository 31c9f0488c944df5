"""The parts of a graph: from whatever arrays a caller has to canonical ones, or a `DataError`."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from xtcl.errors import DataError, first_few

if TYPE_CHECKING:
    from xtcl.graph.graph import Graph

MAX_NODES = 2**31 - 1  # so that a pair of nodes fits one 64-bit key
IntArray: TypeAlias = NDArray[np.int64]
FloatArray: TypeAlias = NDArray[np.float32]


if TYPE_CHECKING:
    SparseMatrix: TypeAlias = sparse.csr_array[np.float32, tuple[int, int]]
else:
    SparseMatrix = sparse.csr_array


Attributes: TypeAlias = FloatArray | SparseMatrix
_Frozen = TypeVar("_Frozen")


@dataclass(frozen=True)
class Repairs:
    """Counts of what was repaired, in the order in which the repairs happen.

    1. `loops_dropped`: entries that joined a node to itself.
    2. `duplicates_merged`: entries that repeated an earlier (u, v) exactly.
    3. `directions_removed`: of the entries that are left, those with no reverse partner. A list
       that gives every edge once is a plain undirected edge list, and one that gives every edge in
       both directions is the usual convention; neither is a repair. Only where the list mixes the
       two, or where the source says that it is directed, did one-way entries lose a direction.

    False when nothing was repaired.
    """

    duplicates_merged: int = 0
    loops_dropped: int = 0
    directions_removed: int = 0

    def __bool__(self) -> bool:
        return any((self.duplicates_merged, self.loops_dropped, self.directions_removed))

    def sentences(self) -> list[str]:
        """One sentence for each kind of repair that was made; empty when there was none."""
        sentences = []
        if self.loops_dropped:
            loops = _count(
                self.loops_dropped,
                "edge from a node to itself was",
                "edges from a node to itself were",
            )
            sentences.append(f"{loops} dropped.")
        if self.duplicates_merged:
            duplicates = _count(self.duplicates_merged, "repeated edge was", "repeated edges were")
            sentences.append(f"{duplicates} merged.")
        if self.directions_removed:
            directions = _count(self.directions_removed, "one-way edge was", "one-way edges were")
            sentences.append(f"{directions} made undirected.")
        return sentences


def _count(number: int, singular: str, plural: str) -> str:
    return f"{number:,} {singular if number == 1 else plural}"


def check_edges(edges: object) -> np.ndarray[Any, Any]:
    """The edges as an integer [2, E] array; their range is checked once V is known."""
    if edges is None:
        return np.zeros((2, 0), np.int64)
    pairs = to_host(edges, "Edges")
    if not isinstance(pairs, np.ndarray):
        raise DataError("Edges are a sparse matrix; use Graph.from_scipy for an adjacency matrix.")
    if pairs.size == 0:  # [] has no integer dtype and no second axis, but means no edges
        return np.zeros((2, 0), np.int64)
    if pairs.ndim != 2 or pairs.shape[0] != 2:
        remedy = ""
        if pairs.ndim == 2 and pairs.shape[1] == 2:
            remedy = " This looks like one edge per row: transpose it (edges.T)."
        raise DataError(f"Edges must have the shape [2, E], not {list(pairs.shape)}.{remedy}")
    if pairs.dtype.kind not in "iu":
        remedy = (
            "use .astype(numpy.int64)" if pairs.dtype.kind == "f" else "number the nodes 0..V-1"
        )
        raise DataError(f"Edges must be integers, not {pairs.dtype}; {remedy}.")
    return pairs


def canonical_edges(
    pairs: np.ndarray[Any, Any], num_nodes: int, *, directed: bool = False
) -> tuple[IntArray, Repairs]:
    """Every undirected edge once with u < v, sorted, and what had to be repaired for that.

    `directed` says that the source is known to be directed, so that every one-way edge loses its
    direction; see `Repairs` for the rule without that knowledge. O(E log E).
    """
    wrong = ((pairs < 0) | (pairs >= num_nodes)).any(axis=0)
    if wrong.any():
        places = np.flatnonzero(wrong)
        shown = first_offenders(
            places, lambda at: f"({pairs[0, at]}, {pairs[1, at]}) in column {at}"
        )
        raise DataError(
            f"Edges must join nodes 0..{num_nodes - 1} (there are {num_nodes} nodes), "
            f"but not all do: {shown}. Renumber the nodes, or pass num_nodes if some are missing."
        )
    source, target = pairs.astype(np.int64)
    proper = source != target
    given = source[proper] * num_nodes + target[proper]  # V < 2^31, so this cannot overflow
    arcs = _distinct(given)
    source, target = np.divmod(arcs, num_nodes)
    low, high = np.minimum(source, target), np.maximum(source, target)
    keys = _distinct(low * num_nodes + high)
    two_way = len(arcs) - len(keys)
    one_way = len(keys) - two_way
    repairs = Repairs(
        duplicates_merged=len(given) - len(arcs),
        loops_dropped=int((~proper).sum()),
        directions_removed=one_way if directed or two_way else 0,
    )
    return np.stack(np.divmod(keys, num_nodes)), repairs


def _distinct(keys: IntArray) -> IntArray:
    """Sorted distinct keys; `np.unique` hashes first, over ten times slower (numpy 2.4)."""
    keys = np.sort(keys)
    return keys[np.concatenate(([True], keys[1:] != keys[:-1]))] if keys.size else keys


def both_directions(edges: IntArray, num_nodes: int) -> IntArray:
    """[2, 2E] from canonical [2, E], sorted by (row, column)."""
    low, high = edges
    keys = np.concatenate((low * num_nodes + high, high * num_nodes + low))
    keys.sort()
    return np.stack(np.divmod(keys, num_nodes))


def check_attributes(attributes: object) -> Attributes:
    """A float32 copy of the attributes, refused unless every value is a finite number."""
    values = to_host(attributes, "Attributes")
    if values.ndim != 2:
        hint = " A single column is attributes.reshape(-1, 1)." if values.ndim == 1 else ""
        raise DataError(f"Attributes must have the shape [V, D], not {list(values.shape)}.{hint}")
    if values.dtype.kind not in "biuf":
        raise DataError(
            f"Attributes must be real numbers, not {values.dtype}; "
            "encode categories and text as columns of numbers first."
        )
    return _dense(values) if isinstance(values, np.ndarray) else _sparse(values)


def _dense(values: np.ndarray[Any, Any]) -> FloatArray:
    with np.errstate(over="ignore", invalid="ignore"):
        result = np.array(values, dtype=np.float32, order="C", copy=True)
    wrong = ~np.isfinite(result)
    if wrong.any():
        rows, columns = np.nonzero(wrong)
        _refuse(rows, columns, values[wrong])
    result.setflags(write=False)
    return result


def _sparse(values: Any) -> SparseMatrix:
    matrix = sparse.csr_array(sound_copy(values, "attribute"))
    matrix.sum_duplicates()
    exact = matrix.data
    with np.errstate(over="ignore", invalid="ignore"):
        matrix = matrix.astype(np.float32)
    wrong = np.flatnonzero(~np.isfinite(matrix.data))
    if wrong.size:
        rows = np.searchsorted(matrix.indptr, wrong, side="right") - 1
        _refuse(rows, matrix.indices[wrong], exact[wrong])
    matrix.eliminate_zeros()
    matrix.sort_indices()
    for part in (matrix.data, matrix.indices, matrix.indptr):
        part.setflags(write=False)
    return matrix


def sound_copy(matrix: Any, what: str) -> Any:
    """A copy of a scipy sparse matrix whose places all lie inside it, else scipy may crash."""
    own = matrix.copy()  # scipy's check may change what it checks
    try:
        if own.format in ("csr", "csc", "bsr"):
            own.check_format(full_check=True)
    except (ValueError, TypeError) as error:
        raise DataError(f"The sparse {what} matrix is damaged ({error}).") from error
    return own


def _refuse(
    rows: np.ndarray[Any, Any], columns: np.ndarray[Any, Any], found: np.ndarray[Any, Any]
) -> None:
    cells = first_offenders(
        range(len(found)), lambda at: f"({rows[at]}, {columns[at]}) is {found[at]}"
    )
    if np.isfinite(found).all():
        raise DataError(
            f"Attributes are too large for float32 at (row, column) {cells}; "
            "scale the columns, for instance to unit variance."
        )
    raise DataError(
        f"Attributes must be finite numbers, but at (row, column) {cells}; "
        "impute or drop these values first."
    )


def check_node_ids(node_ids: object, num_nodes: int) -> np.ndarray[Any, Any] | None:
    """A copy of the ids, which must be distinct, one per node."""
    if node_ids is None:
        return None
    ids = to_array(node_ids, "Node ids")
    if ids.ndim != 1 or len(ids) != num_nodes:
        raise DataError(
            f"Node ids have the shape {list(ids.shape)}, but there are {num_nodes} nodes; "
            "give one id per node."
        )
    ids = id_array(ids.tolist()) if ids.dtype.kind == "O" else ids.copy()
    try:
        repeated = [value for value, times in Counter(ids.tolist()).items() if times > 1]
    except TypeError as error:
        raise DataError(f"Node ids must be plain values ({error}).") from error
    if repeated:
        raise DataError(f"Node ids must be distinct, but these repeat: {first_few(repeated)}.")
    return ids


def id_array(ids: Sequence[object]) -> np.ndarray[Any, Any]:
    """Ids as int64 or strings where all are one of these, else as objects."""
    if all(_is_int64(value) for value in ids):
        return np.array(ids, np.int64)
    if all(isinstance(value, str) for value in ids):
        return np.array(ids, np.str_)
    result = np.empty(len(ids), object)
    result[:] = ids
    return result


def _is_int64(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        return False
    return -(2**63) <= int(value) < 2**63


def count_nodes(
    num_nodes: int | None,
    attributes: Attributes | None,
    node_ids: object,
    labels: object,
    pairs: np.ndarray[Any, Any],
) -> int:
    """V, from the first of these that is given; contradictions between the first two are refused.

    Of node ids and labels only the length counts here, of edges only the largest entry.
    """
    if (attributes is None or attributes.shape[1] == 0) and not pairs.size:
        raise DataError("The graph has neither attributes nor edges; give at least one of them.")
    if num_nodes is not None:
        if isinstance(num_nodes, bool) or not isinstance(num_nodes, (int, np.integer)):
            raise DataError(f"num_nodes must be an integer, not {num_nodes!r}.")
        if attributes is not None and attributes.shape[0] != num_nodes:
            raise DataError(
                f"num_nodes is {num_nodes}, but there are {attributes.shape[0]} attribute rows; "
                "leave num_nodes out, or give one row per node."
            )
        count = int(num_nodes)
    elif attributes is not None:
        count = int(attributes.shape[0])
    elif node_ids is not None or labels is not None:
        count = to_array(labels if node_ids is None else node_ids, "Labels and node ids").size
    else:
        count = max(0, int(pairs.max()) + 1)
    if count < 2:
        raise DataError(f"A graph needs at least two nodes, but there are {count}.")
    if count > MAX_NODES:
        raise DataError(f"{count} nodes are too many; number the nodes 0..V-1 without gaps.")
    return count


def check_invariants(graph: Graph) -> None:
    """Refuse a graph that was put together by hand and is not canonical. O(V + E)."""
    attributes, edges, labels = graph.attributes, graph.edges, graph.labels
    low, high = edges if edges.ndim == 2 and len(edges) == 2 else (np.ones(1), np.zeros(1))
    ascending = (low[1:] > low[:-1]) | ((low[1:] == low[:-1]) & (high[1:] > high[:-1]))
    sound = (
        isinstance(attributes, (np.ndarray, sparse.csr_array))
        and attributes.ndim == 2
        and attributes.dtype == np.float32
        and edges.dtype == np.int64
        and bool((low < high).all() and ascending.all())
        and (not low.size or bool(low[0] >= 0 and high.max() < attributes.shape[0]))
    )
    if labels is not None:
        sound &= labels.dtype == np.int64 and labels.shape == attributes.shape[:1]
        sound &= bool((labels >= -1).all() and (labels < graph.num_classes).all())
    if graph.encoding is not None:
        sound &= len(graph.encoding.attributes) == graph.num_attributes
    if not sound:
        raise DataError("These arrays are not canonical; Graph.from_arrays makes them so.")


def to_host(value: object, what: str) -> Any:
    """A numpy array or scipy sparse matrix of `value`; torch tensors are brought to the host.

    torch is not imported: a caller who holds a tensor has done that already.
    """
    if sparse.issparse(value):
        return value
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return _tensor_to_host(value)
    if np.ma.isMaskedArray(value):
        if np.ma.is_masked(value):
            raise DataError(f"{what} have masked entries; fill them, for instance with .filled(0).")
        value = np.ma.getdata(value)
    try:
        return np.asarray(value)
    except (ValueError, TypeError) as error:
        raise DataError(f"{what} cannot be read as an array ({error}).") from error


def to_array(value: object, what: str) -> np.ndarray[Any, Any]:
    """As `to_host`, where a sparse matrix makes no sense."""
    array = to_host(value, what)
    if not isinstance(array, np.ndarray):
        raise DataError(f"{what} must be a plain array, not a sparse matrix; use .toarray().")
    return array


def _tensor_to_host(tensor: Any) -> Any:
    import torch

    tensor = tensor.detach().cpu()
    if tensor.dtype == torch.bfloat16:  # numpy has no such type; float32 holds every value of it
        tensor = tensor.float()
    if tensor.layout == torch.strided:
        return tensor.resolve_conj().resolve_neg().numpy()
    entries = tensor.to_sparse_coo().coalesce()
    places = tuple(entries.indices().numpy())
    return sparse.coo_array((entries.values().numpy(), places), shape=tuple(entries.shape))


def frozen(array: _Frozen) -> _Frozen:
    """The array (or CSR matrix, or None) itself where it is read-only, else a read-only copy."""
    if isinstance(array, sparse.csr_array):
        if any(part.flags.writeable for part in (array.data, array.indices, array.indptr)):
            array = array.copy()
            for part in (array.data, array.indices, array.indptr):
                part.setflags(write=False)
    elif isinstance(array, np.ndarray) and array.flags.writeable:
        array = array.copy()
        array.setflags(write=False)
    return array


def shared_view(matrix: SparseMatrix) -> SparseMatrix:
    """A new CSR object over the same arrays, which must be canonical."""
    view: Any = sparse.csr_array((matrix.data, matrix.indices, matrix.indptr), shape=matrix.shape)
    view.has_canonical_format = True  # or scipy would scan for it on first use
    result: SparseMatrix = view
    return result


def first_offenders(
    places: Sequence[int] | np.ndarray[Any, Any], describe: Callable[[int], str], limit: int = 5
) -> str:
    """As `first_few`, but only what is shown is described: millions of cells can be wrong."""
    shown = first_few(describe(int(at)) for at in places[:limit])
    return shown if len(places) <= limit else f"{shown}, ... ({len(places)} in all)"
