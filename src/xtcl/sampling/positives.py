"""The B best candidates of every node.

Candidates are ranked by their score f_u(v). Hundreds share a pattern and so a score, and the
tie-break is part of the method: first the similarity of one chosen relation (attribute distribution
by default, random where it is missing), then a seeded shuffle of the nodes that is rotated for
every u. The shuffle leaves no tie, so the result is the same for any block size. A node is never
its own positive, and neither is a node that is above for no relation: nothing speaks for it. Where
candidates run out the row is filled with -1.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, cast

import numpy as np
import scipy.sparse as sp
import torch

from xtcl.config import SamplerConfig
from xtcl.distributed import local_work, world
from xtcl.relations.relation import Relation
from xtcl.relations.rows import DenseRows, all_nodes
from xtcl.relations.search import index_name
from xtcl.relations.sparse import AboveRows
from xtcl.relations.store.key import Description, canonical, circumstances, digest
from xtcl.relations.store.parquet import DamagedFileError, StoredRelation
from xtcl.relations.store.relation_store import RelationStore
from xtcl.relations.topk_rows import TopKRows
from xtcl.relations.view import ATTRIBUTES, LABELS, LINKS
from xtcl.sampling.candidates import NO_NODE, Shuffle, TopB, listed_scores, whole_scores
from xtcl.sampling.patterns import margin_table
from xtcl.sampling.stumps import Stumps, sigmoid

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from xtcl.sampling.xgsampler import XGSampler


@dataclass(frozen=True)
class Positives:
    """The best candidates of every node, best first."""

    nodes: np.ndarray  # int64 [V, B], NOBODY where there are no more
    scores: np.ndarray  # float32 [V, B], the margin y_hat; -inf where nobody

    @property
    def filled(self) -> np.ndarray:
        """Which places hold a node."""
        return np.asarray(self.nodes != NO_NODE)

    @property
    def chances(self) -> np.ndarray:
        """f_u(v), the chance of being alike, [V, B]; 0 where nobody."""
        return sigmoid(self.scores)

    def likely(self, least_chance: float) -> Positives:
        """Those alike with at least this chance, and every node's best in any case."""
        kept = self.chances >= least_chance
        kept[:, :1] = True
        return Positives(
            np.where(kept, self.nodes, NO_NODE), np.where(kept, self.scores, np.float32(-np.inf))
        )

    def precision(self, labels: np.ndarray) -> float:
        """Share of positives with the label of their node, among pairs of known labels."""
        partner = labels[self.nodes]
        known = self.filled & (labels[:, None] >= 0) & (partner >= 0)
        return float((partner == labels[:, None])[known].mean())


def find_positives(
    rows: DenseRows | TopKRows,
    stumps: Stumps,
    number: int,
    *,
    seed: int,
    height: int,
    tie_break: Relation | None = None,
    exclude: sp.csr_array | None = None,
    progress: Callable[[int], None] = lambda done: None,
) -> Positives:
    """The `number` best candidates of every node, `height` nodes at a time.

    Ranks share the nodes, and each of them gets the candidates of all.
    """
    table = torch.tensor(margin_table(stumps), dtype=torch.float32, device=rows.device)
    shuffle = Shuffle(rows.num_nodes, seed, rows.device)
    everyone = world()
    own = everyone.share(all_nodes(rows.num_nodes))
    settings = (own, height, table, shuffle, tie_break, exclude, number)
    blocks: Iterator[TopB]
    if isinstance(rows, TopKRows):
        blocks = listed_scores(rows, *settings)
    else:
        blocks = whole_scores(rows, *settings)
    nodes = [torch.zeros(0, number, dtype=torch.int64, device=rows.device)]
    scores = [torch.zeros(0, number, device=rows.device)]
    with local_work():
        for best in blocks:
            nodes.append(best.nodes)
            scores.append(best.scores)
            progress(everyone.number * len(best.nodes))  # the others are about as far
        found = [torch.cat(parts).cpu().numpy() for parts in (nodes, scores)]
    return Positives(*(everyone.gather(part) for part in found))


# Positives that were found once and are read ever after: a file of the relation store.
#
# They follow from the training data, the relations, the learned weights and the seed, and from
# nothing that comes after them: a fit with another encoder, or another training, finds the same.
# The
# file is one of the store's, with the score of v for u as its similarity and the place of v among
# the
# positives of u, counted from 1, as its level.


MAX_CACHED = np.iinfo(np.uint8).max
"""Places that a level can count."""


RECALL = "index_recall"


def cached_positives(
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
    cacheable = all(each.cacheable for each in sampler.relations_)
    if store is None or number > MAX_CACHED or not cacheable:
        return find()
    everyone, described = world(), describe_positives(sampler, number, unwanted)
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


def _capped(settings: SamplerConfig) -> dict[str, object]:
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
    nodes = np.full((stored.num_nodes, number), NO_NODE, dtype=np.int64)
    scores = np.full((stored.num_nodes, number), -np.inf, dtype=np.float32)
    where = rows.sources, rows.levels.astype(np.int64) - 1
    nodes[where] = rows.nodes
    scores[where] = rows.similarities
    return Positives(nodes, scores)
