"""The graph that everything else works on."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from xtcl.errors import UsageError
from xtcl.graph.encoding import TableEncoding
from xtcl.graph.labels import encode_labels, values_of
from xtcl.graph.validation import (
    Attributes,
    IntArray,
    Repairs,
    SparseMatrix,
    both_directions,
    canonical_edges,
    check_attributes,
    check_edges,
    check_invariants,
    check_node_ids,
    count_nodes,
    frozen,
    shared_view,
)

if TYPE_CHECKING:
    import networkx
    from torch_geometric.data import Data


@dataclass(frozen=True, eq=False, repr=False)
class Graph:
    """One immutable, validated, undirected graph.

    Make it with `Graph.from_arrays` or one of the other `from_...` methods: they copy, check and
    repair what they are given. The constructor itself takes only what is canonical already.

    Attributes:
        attributes: float32 [V, D], dense or a `scipy.sparse.csr_array` as it was given; D may be 0.
        edges: int64 [2, E], every undirected edge once with u < v, sorted, no repeats, no loops.
        labels: int64 [V] codes into `classes`, -1 where unknown; None without labels.
        classes: the original label value of each code; empty without labels.
        node_ids: the original ids; None where they are 0..V-1.
        repairs: what was changed in the edges that were given.
        name: how messages and reports call the graph.
        encoding: how the columns of a table became attributes; None where they came otherwise.

    """

    attributes: Attributes
    edges: IntArray
    labels: IntArray | None = None
    classes: tuple[Hashable, ...] = ()
    node_ids: np.ndarray[Any, Any] | None = None
    repairs: Repairs = field(default_factory=Repairs)
    name: str = "graph"
    encoding: TableEncoding | None = None

    def __post_init__(self) -> None:
        for name in ("attributes", "edges", "labels", "node_ids"):
            object.__setattr__(self, name, frozen(getattr(self, name)))
        check_invariants(self)

    @classmethod
    def from_arrays(
        cls,
        attributes: object = None,
        edges: object = None,
        labels: object = None,
        *,
        num_nodes: int | None = None,
        node_ids: object = None,
        classes: Sequence[Hashable] | None = None,
        name: str = "graph",
    ) -> Graph:
        """Check, copy and repair arrays, and make a graph of them.

        Args:
            attributes: [V, D] numbers: array-like, scipy sparse or torch tensor; None for none.
            edges: [2, E] node numbers (PyG's `edge_index`): array-like or torch tensor. Each edge
                once or in both directions; see `Repairs` for what is done about the rest.
            labels: [V] one class per node. Integers with -1 for unknown, or floats with NaN for
                unknown, or strings with None, NaN or "" for unknown. Classes are the sorted
                distinct values, so that integers 0..C-1 stay as they are.
            num_nodes: needed only where no other argument has the number of nodes; without it,
                attributes, node ids, labels, and last the largest edge entry decide.
            node_ids: [V] distinct original ids.
            classes: where given, labels are codes (-1, 0..C-1) into it already.
            name: how messages and reports call the graph.

        Raises:
            DataError: the arrays do not describe a graph; the message names the first offenders.

        """
        pairs = check_edges(edges)
        matrix = None if attributes is None else check_attributes(attributes)
        count = count_nodes(num_nodes, matrix, node_ids, labels, pairs)
        canonical, repairs = canonical_edges(pairs, count)
        codes, values = encode_labels(labels, count, classes)
        return cls(
            attributes=np.zeros((count, 0), np.float32) if matrix is None else matrix,
            edges=canonical,
            labels=codes,
            classes=values,
            node_ids=check_node_ids(node_ids, count),
            repairs=repairs,
            name=name,
        )

    @property
    def num_nodes(self) -> int:
        """V, isolated nodes included."""
        return int(self.attributes.shape[0])

    @property
    def num_edges(self) -> int:
        """E, every undirected edge counted once."""
        return int(self.edges.shape[1])

    @property
    def num_attributes(self) -> int:
        """D, the columns of `attributes`."""
        return int(self.attributes.shape[1])

    @property
    def num_classes(self) -> int:
        """C, classes that no node has included."""
        return len(self.classes)

    @property
    def has_attributes(self) -> bool:
        """Whether there is at least one attribute column."""
        return self.num_attributes > 0

    @property
    def has_labels(self) -> bool:
        """Whether at least one node's label is known."""
        return self.labels is not None and bool((self.labels >= 0).any())

    @cached_property
    def edge_index(self) -> IntArray:
        """int64 [2, 2E]: both directions of every edge, sorted by (row, column)."""
        return frozen(both_directions(self.edges, self.num_nodes))

    @cached_property
    def degrees(self) -> IntArray:
        """int64 [V]: how many neighbours each node has."""
        return frozen(np.bincount(self.edges.ravel(), minlength=self.num_nodes).astype(np.int64))

    @property
    def adjacency(self) -> SparseMatrix:
        """float32 0/1 [V, V], CSR: symmetric, sorted, zero diagonal.

        The arrays are made once and are read-only. The object around them is new each time,
        because `setdiag` and its like put new arrays into it: they stay the caller's own.
        """
        return shared_view(self._adjacency)

    @cached_property
    def _adjacency(self) -> SparseMatrix:
        indptr = np.concatenate(([0], np.cumsum(self.degrees)))
        places = np.int32 if indptr[-1] <= np.iinfo(np.int32).max else np.int64
        parts = (
            np.ones(2 * self.num_edges, np.float32),
            self.edge_index[1].astype(places),
            indptr.astype(places),
        )
        return frozen(sparse.csr_array(parts, shape=(self.num_nodes, self.num_nodes)))

    def with_edges(self, edges: object) -> Graph:
        """The same nodes with other edges, which are checked and repaired as in `from_arrays`."""
        canonical, repairs = canonical_edges(check_edges(edges), self.num_nodes)
        return replace(self, edges=canonical, repairs=repairs)

    def with_labels(self, labels: object) -> Graph:
        """The same graph and classes with other label codes (-1 where unknown)."""
        codes, _ = encode_labels(labels, self.num_nodes, self.classes)
        return replace(self, labels=codes)

    def label_values(self, codes: object) -> np.ndarray[Any, Any]:
        """The original label values of codes; -1 comes back as what `from_arrays` reads as unknown.

        That is -1 where all classes are non-negative integers, "" where all are strings, else None.
        """
        return values_of(codes, self.classes)

    def fingerprint(self) -> str:
        """SHA-256 (hex) of the shape, attributes and edges, but not of labels, ids or name.

        Dense and sparse attributes of the same content give the same hash. O(V D + E), once.
        """
        return self._fingerprint

    @cached_property
    def _fingerprint(self) -> str:
        return fingerprint_of(self.attributes, self.edges)

    def summary(self) -> dict[str, object]:
        """What the graph is, in figures, ready for JSON."""
        known = 0 if self.labels is None else int((self.labels >= 0).sum())
        return {
            "name": self.name,
            "nodes": self.num_nodes,
            "edges": self.num_edges,
            "attributes": self.num_attributes,
            "classes": self.num_classes,
            "labelled_nodes": known,
            "isolated_nodes": int((self.degrees == 0).sum()),
            "mean_degree": 2 * self.num_edges / self.num_nodes,
            "repairs": self.repairs.sentences(),
        }

    def __repr__(self) -> str:
        return (
            f"Graph(name={self.name!r}, nodes={self.num_nodes}, edges={self.num_edges}, "
            f"attributes={self.num_attributes}, classes={self.num_classes})"
        )

    def __reduce__(self) -> tuple[type[Graph], tuple[Any, ...]]:
        # Through the constructor, so that a graph sent to another process is read-only there too.
        return type(self), tuple(getattr(self, part.name) for part in fields(self))

    def __array__(self, *options: Any, **named: Any) -> np.ndarray[Any, Any]:
        # `np.asarray(graph)` is the first thing that scikit-learn does with its X.
        raise UsageError(
            f"Graph {self.name!r} is no array. In scikit-learn's cross_val_score, GridSearchCV and "
            "pipelines use NodeEmbedder(graph), for which X are node numbers and y their labels; "
            "the arrays of a graph are attributes, edges and labels."
        )

    def __copy__(self) -> Graph:
        return self  # nothing in it can be changed, so one object serves everybody

    def __deepcopy__(self, memo: object) -> Graph:
        return self  # scikit-learn's `clone` copies parameters this way, once for every fold

    def save(self, path: str | PathLike[str]) -> None:
        """Write the graph to one pickle-free .npz file, atomically and byte for byte repeatable."""
        from xtcl.graph.save import save_graph

        save_graph(self, path)

    @staticmethod
    def load(path: str | PathLike[str]) -> Graph:
        """Read and check what `save` wrote; a damaged file gives a `DataError`."""
        from xtcl.graph.save import load_graph

        return load_graph(path)

    @staticmethod
    def from_pyg(data: Data, name: str = "graph") -> Graph:
        """See `xtcl.graph.convert.graph_from_pyg`."""
        from xtcl.graph.convert import graph_from_pyg

        return graph_from_pyg(data, name=name)

    def to_pyg(self) -> Data:
        """See `xtcl.graph.convert.graph_to_pyg`."""
        from xtcl.graph.convert import graph_to_pyg

        return graph_to_pyg(self)

    @staticmethod
    def from_networkx(
        nx_graph: networkx.Graph[Any],
        attributes: Sequence[str] | None = None,
        label: str | None = None,
        name: str = "graph",
    ) -> Graph:
        """See `xtcl.graph.convert.graph_from_networkx`."""
        from xtcl.graph.convert import graph_from_networkx

        return graph_from_networkx(nx_graph, attributes=attributes, label=label, name=name)

    def to_networkx(self) -> networkx.Graph[Any]:
        """See `xtcl.graph.convert.graph_to_networkx`."""
        from xtcl.graph.convert import graph_to_networkx

        return graph_to_networkx(self)

    @staticmethod
    def from_scipy(
        adjacency: object, attributes: object = None, labels: object = None, name: str = "graph"
    ) -> Graph:
        """See `xtcl.graph.convert.graph_from_scipy`."""
        from xtcl.graph.convert import graph_from_scipy

        return graph_from_scipy(adjacency, attributes, labels, name=name)


_BLOCK_BYTES = 1 << 24


def fingerprint_of(attributes: Attributes, edges: IntArray) -> str:
    """SHA-256 over the shape, the nonzero attributes by row, and the edges.

    Dense attributes are read in blocks of rows as if they were CSR, so that both forms of one
    content agree without a whole copy in the other form.
    """
    counts, columns, values = hashlib.sha256(), hashlib.sha256(), hashlib.sha256()
    if isinstance(attributes, np.ndarray):
        step = max(1, _BLOCK_BYTES // max(1, 4 * attributes.shape[1]))
        for start in range(0, attributes.shape[0], step):
            block = attributes[start : start + step]
            present = block != 0
            counts.update(present.sum(axis=1).astype("<i8").tobytes())
            columns.update(np.nonzero(present)[1].astype("<i8").tobytes())
            values.update(block[present].astype("<f4").tobytes())
    else:
        counts.update(np.diff(attributes.indptr).astype("<i8").tobytes())
        columns.update(attributes.indices.astype("<i8").tobytes())
        values.update(attributes.data.astype("<f4").tobytes())
    whole = hashlib.sha256(f"xtcl graph 1 {attributes.shape} {edges.shape}".encode())
    for part in (counts, columns, values):
        whole.update(part.digest())
    whole.update(edges.astype("<i8").tobytes())
    return whole.hexdigest()
