"""Nodes that come after the fit: embedded and classified without another one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from xtcl.answers.answer_table import AnswerTable
from xtcl.answers.named_pairs import read_pairs
from xtcl.answers.node_names import names_of
from xtcl.answers.predictions import class_chances, prediction_table
from xtcl.errors import DataError, UsageError, first_few
from xtcl.graph.graph import Graph
from xtcl.graph.grown import grown
from xtcl.graph.tables.new_nodes import NewNodes, encode_nodes
from xtcl.learning.inputs import encoder_inputs
from xtcl.learning.trainer import embed

if TYPE_CHECKING:
    from xtcl.estimator import XTCL


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
    graph = model.training_side_.graph
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
    larger = grown(graph, new.attributes, links)
    device = next((p.device for p in model.encoder_.parameters()), torch.device("cpu"))
    rows = embed(model.encoder_, *encoder_inputs(larger, device), model.plan_.batch)
    return NewRows(new.ids, rows[graph.num_nodes :].cpu().numpy())


def predict_new(model: XTCL, nodes: Any, edges: Any = None) -> AnswerTable:
    """Class and chances of new nodes, as `predictions` gives them for those of the fit."""
    class_chances(model)  # refuses a model without classes, before any work
    rows = embed_new(model, nodes, edges)
    graph = model.training_side_.graph
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
