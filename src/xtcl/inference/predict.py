"""Pairs of nodes by their ids, from a table."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import torch

from xtcl.errors import DataError, UsageError, first_few
from xtcl.graph.graph import Graph
from xtcl.graph.subgraph import with_nodes
from xtcl.graph.tables.columns import TEXT_TYPE
from xtcl.graph.tables.edges import read_links
from xtcl.graph.tables.encode import NewNodes, encode_nodes
from xtcl.graph.tables.sources import open_table
from xtcl.graph.tables.spec import TableSpec, link_columns
from xtcl.inference.tables import MARK, MARKED, AnswerTable, chances, names_of
from xtcl.nn.encoder import encoder_inputs
from xtcl.tasks.results import NodePredictions
from xtcl.training.trainer import embed

if TYPE_CHECKING:
    from xtcl.estimator import XTCL


def read_pairs(
    source: Any, graph: Graph, further: np.ndarray[Any, Any] | None = None, where: str = "the run"
) -> np.ndarray[Any, Any]:
    """Node numbers [2, n] of the pairs in a table, in its order; weights are not read.

    `further` are ids of nodes that come after those of the graph. An id may have the apostrophe
    that CSV puts in front of some, unless another id is written so.
    """
    table = open_table(source, "pairs")
    names = names_of(graph).astype(str).tolist()
    if further is not None:
        names += further.astype(str).tolist()
    known = set(names)
    marked = [
        at for at, name in enumerate(names) if name.startswith(MARKED) and MARK + name not in known
    ]
    places = np.concatenate([np.arange(len(names)), np.array(marked, np.int64)])
    written = names + [MARK + names[at] for at in marked]
    columns = replace(link_columns(table, TableSpec(source)), weight=None)
    return places[read_links(table, columns, pa.array(written, TEXT_TYPE), where).pairs]


@dataclass(frozen=True)
class NewRows:
    """Ids and embeddings of new nodes."""

    names: np.ndarray[Any, Any]
    embedding: np.ndarray


def embed_new(model: XTCL, nodes: Any, edges: Any = None) -> NewRows:
    """The trained encoder's view of new nodes, in the graph of the fit grown by them.

    `nodes` is a table as the one of the fit; `edges` links them with each other and with the nodes
    of the fit, whose own embeddings stay what they are.
    """
    model._fitted()
    graph = model.training_data_.graph
    if graph.encoding is None:
        raise UsageError(
            "New nodes are read as the table of nodes of the fit was, and this model was fitted "
            "without one: fit it from tables (--nodes and --edges, or read_tables)."
        )
    new = encode_nodes(nodes, graph.encoding, model.progress)
    names = names_of(graph)
    again = np.intersect1d(names.astype(str), new.ids.astype(str))
    if again.size:
        raise DataError(
            f"The new nodes {first_few(map(repr, again.tolist()))} are nodes of the fit already; "
            "leave them out, or give them ids of their own."
        )
    links = np.zeros((2, 0), np.int64) if edges is None else _new_links(edges, graph, new)
    alone = np.setdiff1d(graph.num_nodes + np.arange(len(new.ids)), links) - graph.num_nodes
    if alone.size and not graph.has_attributes:
        raise DataError(
            f"The new nodes {first_few(map(repr, new.ids[alone].tolist()))} have no links, and "
            "this model knows nodes by their links alone; give a table of edges with theirs."
        )
    larger = with_nodes(graph, new.attributes, links)
    device = next((p.device for p in model.encoder_.parameters()), torch.device("cpu"))
    rows = embed(model.encoder_, *encoder_inputs(larger, device), model.plan_.batch)
    return NewRows(new.ids, rows[graph.num_nodes :].cpu().numpy())


def predict_new(model: XTCL, nodes: Any, edges: Any = None) -> AnswerTable:
    """Class and chances of new nodes, as `predictions` gives them for those of the fit."""
    class_chances(model)  # refuses a model without classes, before any work
    rows = embed_new(model, nodes, edges)
    graph = model.training_data_.graph
    told = model.head_.calibrated().predict_proba(rows.embedding, graph.num_classes)
    return prediction_table(graph, rows.names, told)


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


def class_chances(model: XTCL) -> np.ndarray:
    """Chances [V, C] of a model for nodes; refuses one for links."""
    answer = model._fitted().answer
    if not isinstance(answer, NodePredictions):
        raise UsageError(
            "This model was fitted to predict links, and has no classes: ask for links "
            "(`xtcl links RUN`), or fit one with task nodes."
        )
    return answer.probabilities


def predictions(model: XTCL) -> AnswerTable:
    """For every node its likeliest class, the chances, and the label that was trained on."""
    graph = model.training_data_.graph
    return prediction_table(graph, names_of(graph), class_chances(model), graph.labels)


def prediction_table(
    graph: Graph,
    names: np.ndarray[Any, Any],
    told: np.ndarray,
    labels: np.ndarray | None = None,
) -> AnswerTable:
    """The chances `told` [n, C] of the nodes `names` as a table; `labels` are codes, or -1."""
    known = np.full(len(names), -1) if labels is None else labels
    values = class_names(graph)
    or_none = np.array([*values, None], dtype=object)  # code -1 reads None
    return AnswerTable(
        {
            "node": names,
            "predicted": values[told.argmax(axis=1)],
            "probability": chances(told.max(axis=1)),
            "known": or_none[known],
            **{f"p_{value}": chances(told[:, code]) for code, value in enumerate(values)},
        }
    )


def class_names(graph: Graph) -> np.ndarray[Any, Any]:
    """The classes as the tables have them, by code: all of them integers, or else all text."""
    whole = all(type(value) is int for value in graph.classes)
    names = np.empty(graph.num_classes, dtype=object)
    names[:] = graph.classes if whole else [str(value) for value in graph.classes]
    return names
