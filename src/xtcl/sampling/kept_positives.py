"""Positives that were found once and are read ever after: a file of the relation store.

They follow from the training data, the relations, the learned weights and the seed, and from
nothing that comes after them: a fit with another encoder, or another training, finds the same. The
file is one of the store's, with the score of v for u as its similarity and the place of v among the
positives of u, counted from 1, as its level.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, cast

import numpy as np
import scipy.sparse as sp

from xtcl.ranks import ranks
from xtcl.relations.above_rows import AboveRows
from xtcl.relations.nearest.index import index_name
from xtcl.relations.relation import Relation
from xtcl.relations.store.identity import Description, canonical, circumstances, digest
from xtcl.relations.store.relation_store import RelationStore
from xtcl.relations.store.stored_relation import DamagedFileError, StoredRelation
from xtcl.relations.view import ATTRIBUTES, LABELS, LINKS
from xtcl.sampling.positives import Positives
from xtcl.sampling.scored import NOBODY
from xtcl.sampling.settings import SamplerSettings

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from xtcl.sampling.xgsampler import XGSampler

MOST = np.iinfo(np.uint8).max
"""Places that a level can count."""

RECALL = "index_recall"


def kept_positives(
    store: RelationStore | None,
    sampler: XGSampler,
    number: int,
    unwanted: sp.csr_array | None,
    find: Callable[[], Positives],
) -> Positives:
    """The `number` best candidates of every node, read, or found and kept.

    With a relation that is not one of ours they are found each time, for its code may change.
    What an index found of the best is noted with them.
    """
    ours = not any(each.foreign for each in sampler.relations_)
    if store is None or number > MOST or not ours:
        return find()
    everyone, described = ranks(), describe_positives(sampler, number, unwanted)
    read = _opened(store, described, number)
    if everyone.gather(np.array([read is not None])).all() and read is not None:
        found, sampler.index_recall_ = read
        return found
    found = find()  # which ranks do together, though some have a folder of their own that has them
    if everyone.first:
        try:
            with store.writing_as(described, np.arange(len(found.nodes))) as writer:
                writer.append(np.arange(len(found.nodes)), _rows(found))
                writer.notes = {RECALL: sampler.index_recall_} if sampler.index_recall_ else {}
        except OSError as trouble:
            warnings.warn(
                f"Positives are computed but not kept: the relation store cannot be written to "
                f"({trouble}). Make room for it, or name another folder.",
                stacklevel=2,
            )
    return found


def describe_positives(
    sampler: XGSampler, number: int, unwanted: sp.csr_array | None
) -> Description:
    """All that decides the positives of a fitted sampler."""
    stumps, settings = sampler.stumps_, sampler.settings
    learned = {
        "relations": [[each.name, _parameters(each)] for each in sampler.relations_],
        "base": float(stumps.base).hex(),
        "weights": hashlib.sha256(stumps.weights.astype("<f8").tobytes()).hexdigest(),
        "tie break": settings.tie_break,
        "unwanted": None if unwanted is None else _digest(unwanted),
    }
    return circumstances(sampler.view_, frozenset({ATTRIBUTES, LABELS, LINKS})) | {
        "rows": "all",
        "relation": "positives",
        "parameters": {
            "number": number,
            "seed": sampler.seed,
            "learned": hashlib.sha256(canonical(learned).encode()).hexdigest()[:16],
        }
        | _capped(settings),
        "quantiles": list(settings.quantiles),
    }


def _capped(settings: SamplerSettings) -> dict[str, object]:
    if settings.cap is None:
        return {}
    return {"cap": settings.cap} | index_name(settings.index_past)


def _parameters(relation: Relation) -> dict[str, object]:
    return asdict(cast("DataclassInstance", relation))


def _digest(matrix: sp.csr_array) -> str:
    ordered = matrix if matrix.has_sorted_indices else matrix.sorted_indices()
    return digest(ordered.indptr, ordered.indices)


def _rows(found: Positives) -> AboveRows:
    """In the order of the store: by u, then v."""
    u, place = np.nonzero(found.filled)
    v = found.nodes[u, place]
    order = np.lexsort((v, u))
    start = np.concatenate([[0], np.cumsum(found.filled.sum(axis=1))])
    u, place, v = u[order], place[order], v[order]
    return AboveRows(0, start, v, found.scores[u, place], (place + 1).astype(np.uint8))


def _opened(
    store: RelationStore, described: Description, number: int
) -> tuple[Positives, dict[str, float]] | None:
    """What is kept, with the share of the best that an index found, if any; None where it is not.

    A damaged file is not.
    """
    stored = store.opened(described)
    if stored is None:
        return None
    try:
        with stored:
            return _read(stored, number), dict(stored.notes.get(RECALL, {}))
    except DamagedFileError as damage:
        warnings.warn(str(damage), stacklevel=3)
        return None


def _read(stored: StoredRelation, number: int) -> Positives:
    rows = stored.rows(0, stored.num_nodes)
    nodes = np.full((stored.num_nodes, number), NOBODY, dtype=np.int64)
    scores = np.full((stored.num_nodes, number), -np.inf, dtype=np.float32)
    where = rows.sources, rows.levels.astype(np.int64) - 1
    nodes[where] = rows.nodes
    scores[where] = rows.similarities
    return Positives(nodes, scores)
