"""Classes and embeddings by node id: of the nodes of a fit, and of nodes that come later."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from xtcl.errors import DataError, UsageError, check_is_fitted, first_few
from xtcl.graph.graph import Graph
from xtcl.graph.subgraph import with_nodes
from xtcl.graph.tables.columns import TEXT_TYPE
from xtcl.graph.tables.edges import read_links
from xtcl.graph.tables.encode import NewNodes, encode_nodes
from xtcl.graph.tables.sources import open_table
from xtcl.graph.tables.spec import TableSpec, link_columns
from xtcl.inference.new_nodes import read_new_nodes
from xtcl.inference.tables import CSV_MARK, ResultTable, names_of, needs_mark, round_probabilities
from xtcl.nn.encoder import encoder_inputs
from xtcl.progress import progress_of
from xtcl.tasks.blend import HeadRows, class_probabilities_of
from xtcl.tasks.results import NodePredictions
from xtcl.training.trainer import embed

if TYPE_CHECKING:
    from xtcl.estimator import XTCL


def predictions(model: XTCL) -> ResultTable:
    """For every node of the fit its predicted class, all probabilities, and its known label."""
    graph, answer = model.training_data_.graph, node_predictions(model)
    found = answer.probabilities
    return _prediction_table(graph, names_of(graph), found, answer.classes_of(found), graph.labels)


def predict_new(model: XTCL, nodes: Any, edges: Any = None) -> ResultTable:
    """`predictions` of new nodes; see `embed_new` for the tables."""
    answer = node_predictions(model)  # refuses a model for links before any work
    graph = model.training_data_.graph
    new, larger, embedding = _embed_with(model, nodes, edges)
    labels = np.full(larger.num_nodes, -1, dtype=np.int64)
    labels[: graph.num_nodes] = model.training_data_.labels
    rows = HeadRows(embedding, larger.attributes, larger.adjacency, labels)
    compute = class_probabilities_of(model.head_, rows, graph.num_classes)
    found = compute(slice(graph.num_nodes, None))
    return _prediction_table(graph, new.ids, found, answer.classes_of(found))


@dataclass(frozen=True)
class NewRows:
    """Ids and embeddings of new nodes."""

    names: np.ndarray[Any, Any]
    embedding: np.ndarray


def embed_new(model: XTCL, nodes: Any, edges: Any = None, *, full: bool = False) -> NewRows:
    """Embeddings of new nodes: the trained encoder is run on the graph with the nodes added.

    After a fit from tables `nodes` is a table like the node table of the fit, else a larger graph
    or an array (`xtcl.inference.new_nodes`). `edges` links the new nodes with each other and with
    nodes of the fit, whose own embeddings do not change. The rows are compact, by the map of the
    fit, unless `full`.
    """
    new, _, rows = _embed_with(model, nodes, edges)
    embedding = rows[model.training_data_.graph.num_nodes :].cpu().numpy()
    return NewRows(new.ids, embedding if full else model.compact_map_.apply(embedding))


def _embed_with(model: XTCL, nodes: Any, edges: Any) -> tuple[NewNodes, Graph, Tensor]:
    """The new nodes, the graph of the fit with them, and the embedding of all nodes of that."""
    check_is_fitted(model)
    graph = model.training_data_.graph
    new, links = _read_new(model, graph, nodes, edges)
    isolated = np.setdiff1d(graph.num_nodes + np.arange(len(new.ids)), links) - graph.num_nodes
    if isolated.size and not graph.has_attributes:
        raise DataError(
            f"The new nodes {first_few(map(repr, new.ids[isolated].tolist()))} have no links, and "
            "this model knows nodes by their links alone; give their edges, too."
        )
    larger = with_nodes(graph, new.attributes, links)
    device = next((p.device for p in model.encoder_.parameters()), torch.device("cpu"))
    return new, larger, embed(model.encoder_, *encoder_inputs(larger, device), model.plan_.batch)


def _read_new(
    model: XTCL, graph: Graph, nodes: Any, edges: Any
) -> tuple[NewNodes, np.ndarray[Any, Any]]:
    """The new nodes and their links [2, n], as the graph of the fit was read."""
    if graph.encoding is None:
        hidden = model.fitted_task_.task.name == "links"
        new, links = read_new_nodes(graph, nodes, edges, links_hidden=hidden)
        _refuse_known(graph, new)
        return new, links
    new = encode_nodes(nodes, graph.encoding, progress_of(model))
    _refuse_known(graph, new)
    return new, np.zeros((2, 0), np.int64) if edges is None else _new_links(edges, graph, new)


def _refuse_known(graph: Graph, new: NewNodes) -> None:
    repeated = np.intersect1d(names_of(graph).astype(str), new.ids.astype(str))
    if repeated.size:
        raise DataError(
            f"The new nodes {first_few(map(repr, repeated.tolist()))} are nodes of the fit "
            "already; leave them out, or give them ids of their own."
        )


def node_predictions(model: XTCL) -> NodePredictions:
    """What a model for nodes predicts; refuses a model for links."""
    check_is_fitted(model)
    answer = model.fitted_task_.answer
    if not isinstance(answer, NodePredictions):
        raise UsageError(
            "This model was fitted to predict links, and has no classes: ask for links "
            "(`xtcl links RUN`), or fit one with task nodes."
        )
    return answer


def class_names(graph: Graph) -> np.ndarray[Any, Any]:
    """The classes by code, as result tables name them: all integers, or else all text."""
    all_integers = all(type(value) is int for value in graph.classes)
    names = np.empty(graph.num_classes, dtype=object)
    names[:] = graph.classes if all_integers else [str(value) for value in graph.classes]
    return names


def read_pairs(
    source: Any, graph: Graph, further: np.ndarray[Any, Any] | None = None, where: str = "the run"
) -> np.ndarray[Any, Any]:
    """Node indices [2, n] of the pairs of ids in a table, in its order. Weights are not read.

    The ids `further` are those of nodes after the last one of the graph. An id may have the
    apostrophe that CSV puts in front of some, unless another id is written like that.
    """
    table = open_table(source, "pairs")
    names = names_of(graph).astype(str).tolist()
    if further is not None:
        names += further.astype(str).tolist()
    known = set(names)
    marked = [
        at for at, name in enumerate(names) if needs_mark(name) and CSV_MARK + name not in known
    ]
    indices = np.concatenate([np.arange(len(names)), np.array(marked, np.int64)])
    written = names + [CSV_MARK + names[at] for at in marked]
    columns = replace(link_columns(table, TableSpec(source)), weight=None)
    return indices[read_links(table, columns, pa.array(written, TEXT_TYPE), where).pairs]


def _new_links(edges: Any, graph: Graph, new: NewNodes) -> np.ndarray[Any, Any]:
    pairs = read_pairs(edges, graph, new.ids, "the fit or among the new nodes")
    old = np.flatnonzero((pairs < graph.num_nodes).all(axis=0))
    if old.size:
        u, v = names_of(graph)[pairs[:, old[0]]]
        raise DataError(
            f"{old.size:,} row(s) of the new edges link two nodes of the fit ('{u}' and '{v}' are "
            "the first); new edges have a new node at one end at least. Fit again to use those."
        )
    return pairs


def _prediction_table(
    graph: Graph,
    names: np.ndarray[Any, Any],
    probabilities: np.ndarray,
    codes: np.ndarray,
    labels: np.ndarray | None = None,
) -> ResultTable:
    """The probabilities [n, C] and predicted codes [n] of the nodes `names` as a table.

    The known `labels` are codes, or -1.
    """
    known = np.full(len(names), -1) if labels is None else labels
    classes = class_names(graph)
    or_none = np.array([*classes, None], dtype=object)  # code -1 reads None
    each = {
        f"p_{name}": round_probabilities(probabilities[:, code])
        for code, name in enumerate(classes)
    }
    return ResultTable(
        {
            "node": names,
            "predicted": classes[codes],
            "probability": round_probabilities(probabilities[np.arange(len(names)), codes]),
            "known": or_none[known],
            **each,
        }
    )
