"""What the above pairs of a relation depend on, and the file name that follows from it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import scipy.sparse as sp
import torch

from xtcl.code_digest import code_digest
from xtcl.graph.graph import fingerprint_of
from xtcl.relations.relation import Relation
from xtcl.relations.thresholds import check_quantiles
from xtcl.relations.view import ATTRIBUTES, LABELS, LINKS, TrainingView

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


CODE_OF_RELATIONS = ("xtcl.relations", "xtcl.distributed")
"""Packages whose code decides the above pairs of a relation, and how they are written.

The graph package is left out, because what is read of a graph is hashed.
"""


Description = dict[str, Any]
"""What names a file, as JSON values."""


def describe(
    view: TrainingView,
    relation: Relation,
    quantiles: Sequence[float],
    nodes: np.ndarray | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Description:
    """All that decides the pairs: what `relation` reads of `view`, and how it is computed.

    `nodes` are those whose rows are stored; None means all. `settings` are those of a search that
    does not find all above pairs.
    """
    return circumstances(view, relation.reads, CODE_OF_RELATIONS) | {
        "rows": "all" if nodes is None else digest(nodes),
        "relation": relation.name,
        "class": type(relation).__qualname__,  # somebody else's may have the same name
        "content": relation.content_digest(),
        "parameters": asdict(cast("DataclassInstance", relation)) | dict(settings or {}),
        "quantiles": list(check_quantiles(quantiles)),
    }


def is_storable(relation: Relation) -> bool:
    """Whether a description names all that decides the rows of `relation`, with code and data."""
    return relation.cacheable and relation.content_digest() is not None


def circumstances(
    view: TrainingView, reads: frozenset[str], packages: Sequence[str]
) -> Description:
    """What was read of `view`, and by which code: that of `packages`.

    Code, version of torch and kind of device count because they may change the last bit of a
    similarity, which decides whether a pair at the threshold is above it.
    """
    return {
        "code": code_digest(*packages),
        "torch": str(torch.__version__),
        "device": view.device.type,
        "graph": {kind: _fingerprint(view, kind) for kind in sorted(reads)},
        "nodes": view.num_nodes,
    }


def canonical(described: object) -> str:
    """JSON that is the same for equal content."""

    def plain(value: np.generic) -> Any:
        return value.item()

    return json.dumps(described, sort_keys=True, separators=(",", ":"), default=plain)


def name_of(described: Description) -> str:
    """The SHA-256 of a description: equal names mean equal pairs."""
    return hashlib.sha256(canonical(described).encode()).hexdigest()


def _fingerprint(view: TrainingView, kind: str) -> str:
    if kind == LABELS:
        return digest(view.labels, view.hidden_labels, np.array(view.num_classes))
    key = f"{kind} fingerprint"
    return view.cached(key, lambda: _matrix_fingerprint(view, kind), frozenset({kind}))


def _matrix_fingerprint(view: TrainingView, kind: str) -> str:
    matrix = {ATTRIBUTES: view.attributes, LINKS: view.adjacency}[kind]
    if isinstance(matrix, sp.csr_array) and not matrix.has_sorted_indices:
        matrix = matrix.sorted_indices()
    return fingerprint_of(matrix, np.zeros((2, 0), dtype=np.int64))


def digest(*arrays: np.ndarray) -> str:
    """The SHA-256 of the SHA-256 of each array of integers."""
    parts = (hashlib.sha256(array.astype("<i8").tobytes()).hexdigest() for array in arrays)
    return hashlib.sha256(" ".join(parts).encode()).hexdigest()
