"""Graphs from and to PyTorch Geometric, NetworkX and scipy."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from xtcl.errors import DataError, UsageError, first_few
from xtcl.graph.graph import Graph
from xtcl.graph.validation import (
    canonical_edges,
    check_edges,
    first_offenders,
    id_array,
    sound_copy,
    to_array,
)

if TYPE_CHECKING:
    import networkx
    from torch_geometric.data import Data


def graph_from_pyg(data: Data, name: str = "graph", *, warn_masks: bool = True) -> Graph:
    """A graph from `x`, `edge_index`, `y` and `num_nodes` of a homogeneous PyG `Data`.

    Edge weights, edge attributes and masks are ignored, with a warning; `warn_masks=False` is for
    callers who read the masks themselves. `y` of shape [V, 1] is flattened. An `edge_index` is
    directed in PyG: entries with no way back count in `repairs`.
    """
    from torch_geometric.data import Data, Dataset

    if isinstance(data, Dataset):
        raise DataError(f"{data} is a data set, not a graph: give one of its graphs, dataset[0].")
    if not isinstance(data, Data):
        raise DataError(
            f"Need a torch_geometric.data.Data, not {type(data).__name__}; "
            "turn a HeteroData into one with .to_homogeneous()."
        )
    if data.edge_index is None and "adj_t" in data:
        raise DataError("The data have adj_t in place of edge_index; leave out ToSparseTensor.")
    ignored = [key for key in ("edge_weight", "edge_attr") if data.get(key) is not None]
    if ignored:
        _warn_ignored(", ".join(ignored))
    if warn_masks and data.get("train_mask") is not None:
        warnings.warn(
            "A Graph has no masks, so train_mask of the data is not read: give the Data itself to "
            "fit, or fit with the split NodeSplit.from_pyg(data) or with one of node_split.",
            stacklevel=3,
        )
    labels = data.y
    if labels is not None and labels.dim() == 2 and labels.size(1) == 1:
        labels = labels.squeeze(1)
    # Data infers num_nodes, with a warning where it must guess; take it only where it was set.
    num_nodes = data.num_nodes if "num_nodes" in data else None
    graph = Graph.from_arrays(data.x, data.edge_index, labels, num_nodes=num_nodes, name=name)
    return _of_directed(graph, check_edges(data.edge_index))


def graph_to_pyg(graph: Graph) -> Data:
    """A PyG `Data` with `x` (dense float32), `edge_index` (both directions) and `y` (int64 codes).

    `x` is left out without attributes and `y` without labels; PyG has no place for classes and ids.
    """
    import torch
    from torch_geometric.data import Data

    data = Data(edge_index=torch.tensor(graph.edge_index), num_nodes=graph.num_nodes)
    if graph.has_attributes:
        attributes = graph.attributes
        dense = attributes if isinstance(attributes, np.ndarray) else attributes.toarray()
        data.x = torch.tensor(dense)
    if graph.labels is not None:
        data.y = torch.tensor(graph.labels)
    return data


def graph_from_networkx(
    nx_graph: networkx.Graph[Any],
    attributes: Sequence[str] | None = None,
    label: str | None = None,
    name: str = "graph",
) -> Graph:
    """A graph from any NetworkX graph, nodes in its own order, their names kept as `node_ids`.

    Args:
        nx_graph: parallel edges are merged and directions removed, both counted in `repairs`.
        attributes: node attributes that become columns, in this order; each a number, or a
            sequence of numbers of one length throughout. Every node must have them.
        label: the node attribute that holds the class; a node without it is unlabelled.
        name: how messages and reports call the graph.

    """
    nodes = list(nx_graph)
    place = {node: at for at, node in enumerate(nodes)}
    pairs = np.array([(place[u], place[v]) for u, v in nx_graph.edges()], np.int64).reshape(-1, 2).T
    directed = nx_graph.is_directed()
    if not directed:  # so that a parallel edge repeats its partner whichever end came first
        pairs = np.sort(pairs, axis=0)
    if any("weight" in values for _, _, values in nx_graph.edges(data=True)):
        _warn_ignored("weight")
    graph = Graph.from_arrays(
        _columns(nx_graph, attributes) if attributes and nodes else None,
        pairs,
        None if label is None else _labels(nx_graph, label),
        num_nodes=len(nodes),
        node_ids=None if nodes == list(range(len(nodes))) else id_array(nodes),
        name=name,
    )
    return _of_directed(graph, pairs) if directed else graph


def _columns(nx_graph: networkx.Graph[Any], names: Sequence[str]) -> np.ndarray[Any, Any]:
    if isinstance(names, str):
        raise DataError(f"Give the attribute names as a list: [{names!r}].")
    blocks = []
    for name in names:
        lacking = [node for node, values in nx_graph.nodes(data=True) if name not in values]
        if lacking:
            raise DataError(
                f"Node attribute {name!r} is missing on {first_few(map(repr, lacking))}; "
                "set it on every node, or leave it out."
            )
        rows: list[np.ndarray[Any, Any]] = []
        for node, value in nx_graph.nodes(data=name):
            row = np.atleast_1d(to_array(value, f"Node attribute {name!r} of {node!r}"))
            if row.ndim != 1 or row.dtype.kind not in "biuf":
                raise DataError(f"Node attribute {name!r} of {node!r} is {value!r}, not numbers.")
            if rows and len(row) != len(rows[0]):
                raise DataError(
                    f"Node attribute {name!r} of {node!r} has {len(row)} values, "
                    f"but the first node has {len(rows[0])}; give all nodes the same."
                )
            rows.append(row)
        blocks.append(np.stack(rows))
    return np.concatenate(blocks, axis=1)


def _labels(nx_graph: networkx.Graph[Any], name: str) -> np.ndarray[Any, Any]:
    values = np.empty(len(nx_graph), object)
    for at, (_, given) in enumerate(nx_graph.nodes(data=True)):
        values[at] = given.get(name)
    if all(value is None for value in values):
        raise DataError(f"No node has the label attribute {name!r}; check its name.")
    return values


def graph_to_networkx(graph: Graph) -> networkx.Graph[Any]:
    """A `networkx.Graph` over the original ids, with node attributes `x` (list) and `label`.

    `x` is left out without attributes, `label` where it is unknown. Read it back with
    `Graph.from_networkx(nx_graph, attributes=["x"], label="label")`.
    """
    import networkx

    nodes = range(graph.num_nodes) if graph.node_ids is None else graph.node_ids.tolist()
    result: networkx.Graph[Any] = networkx.Graph(name=graph.name)
    result.add_nodes_from(nodes)
    result.add_edges_from((nodes[u], nodes[v]) for u, v in graph.edges.T.tolist())
    for at, node in enumerate(nodes):
        if graph.has_attributes:
            row = graph.attributes[[at]]
            dense = row if isinstance(row, np.ndarray) else row.toarray()
            result.nodes[node]["x"] = dense[0].tolist()
        if graph.labels is not None and graph.labels[at] >= 0:
            result.nodes[node]["label"] = graph.classes[graph.labels[at]]
    return result


def graph_from_scipy(
    adjacency: Any, attributes: object = None, labels: object = None, name: str = "graph"
) -> Graph:
    """A graph from a square scipy sparse matrix, whose nonzero entries are the edges.

    Weights other than 1 are ignored, with a warning; negative and non-finite ones are refused.
    Entries with no partner across the diagonal count as directions removed in `repairs`.
    """
    if not sparse.issparse(adjacency):
        raise DataError(
            f"Need a scipy sparse adjacency matrix, not {type(adjacency).__name__}; "
            "wrap a dense one in scipy.sparse.csr_array."
        )
    entries: Any = sound_copy(adjacency, "adjacency").tocoo()
    if entries.ndim != 2 or entries.shape[0] != entries.shape[1]:
        raise DataError(f"The adjacency matrix must be square, not {list(entries.shape)}.")
    weights = entries.data
    if weights.dtype.kind not in "biuf":
        raise DataError(f"Adjacency weights must be real numbers, not {weights.dtype}.")
    wrong = np.flatnonzero(~np.isfinite(weights) | (weights < 0))
    rows, columns = entries.coords
    if wrong.size:
        shown = first_offenders(wrong, lambda at: f"({rows[at]}, {columns[at]}) is {weights[at]}")
        raise DataError(
            f"Adjacency weights must be finite and not negative, but at (row, column) {shown}; "
            "drop these entries or set them to 0."
        )
    present = weights != 0
    if (weights[present] != 1).any():
        _warn_ignored("adjacency weights other than 1")
    pairs = np.stack((rows[present], columns[present]))
    graph = Graph.from_arrays(attributes, pairs, labels, num_nodes=entries.shape[0], name=name)
    return _of_directed(graph, pairs)


def _of_directed(graph: Graph, pairs: np.ndarray[Any, Any]) -> Graph:
    """`graph`, its repairs counted knowing that `pairs`, of which it was made, are directed."""
    return replace(graph, repairs=canonical_edges(pairs, graph.num_nodes, directed=True)[1])


def _warn_ignored(what: str) -> None:
    warnings.warn(f"Ignored: {what}. Edges of a Graph carry no weights.", stacklevel=4)


def as_graph(graph: Any, *, warn_masks: bool = True) -> Graph:
    """`graph` itself, or a Graph made from a PyG `Data`, a NetworkX graph or a SciPy matrix.

    Of a NetworkX graph, the node attributes `x` and `label` are taken where they are there, as
    `Graph.to_networkx` writes them; for others, make the Graph with `Graph.from_networkx`. A SciPy
    sparse matrix is an adjacency matrix; `Graph.from_scipy` also takes attributes and labels.

    A `train_mask` of a `Data` is lost, with a warning, unless `warn_masks` is False: that is for
    functions which are given a split beside the graph, or make one.
    """
    if isinstance(graph, Graph):
        return graph
    if is_of(graph, "torch_geometric"):
        return graph_from_pyg(graph, warn_masks=warn_masks)
    if is_of(graph, "networkx"):
        named = {name for _, values in graph.nodes(data=True) for name in values}
        return graph_from_networkx(
            graph,
            attributes=["x"] if "x" in named else None,
            label="label" if "label" in named else None,
        )
    rows, *columns = getattr(graph, "shape", None) or (0,)
    if sparse.issparse(graph) and columns == [rows]:
        return graph_from_scipy(graph)
    raise UsageError(_not_a_graph(graph))


def is_of(given: object, package: str) -> bool:
    """Whether something is of a class of `package`, or of one derived from it; imports nothing."""
    return package in {kind.__module__.partition(".")[0] for kind in type(given).__mro__}


def _not_a_graph(given: Any) -> str:
    """What is accepted, and where else to go with what was given."""
    accepted = (
        "give an xtcl Graph, a PyG Data, a NetworkX graph or a SciPy sparse adjacency matrix."
    )
    if isinstance(given, str | PathLike):
        return (
            f"'{given}' is no graph: {accepted} load_dataset reads a known data set by its name, "
            "Graph.load a saved graph, read_tables tables."
        )
    shape = getattr(given, "shape", None)
    if shape is None and not isinstance(given, list | tuple):
        return f"{type(given).__name__} is no graph: {accepted}"
    what = type(given).__name__ if shape is None else f"{type(given).__name__} of {list(shape)}"
    return (
        f"{what} is no graph: {accepted} Graph.from_arrays makes one of arrays. In scikit-learn's "
        "cross_val_score, GridSearchCV and pipelines use NodeEmbedder(graph), for which X are node "
        "numbers and y their labels."
    )
