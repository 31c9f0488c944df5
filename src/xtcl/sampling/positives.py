"""Positives: the nodes that training pulls a node towards.

- `Positives` are the B best candidates of every node, with their scores, as `find_positives` ranks
  them; `StoredPositives` keeps them in the relation store.
- `PositiveTable` is what a strategy makes, of them or of something else: the nodes alone, and how
  far they are trusted (`xtcl.sampling.strategies`). `PairFilter` says which pairs it may hold.
- `PositiveLists` are what training draws from: a list for every node, from a table or from links.

Candidates are ranked by their score f_u(v). Hundreds share a pattern and so a score, and the
tie-break is part of the method: first the similarity of one chosen relation (attribute distribution
by default, none where it is missing), then a seeded shuffle of the nodes that is rotated for every
u. The shuffle leaves no tie, so the result is the same for any block size. A node is never its own
positive, and a node that is above for no relation is no candidate. Rows with fewer candidates are
filled with -1.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from xtcl.config import SamplerConfig
from xtcl.distributed import local_work, world
from xtcl.relations.blocks import run_in_blocks
from xtcl.relations.relation import Relation
from xtcl.relations.rows import NO_NODE, RelationRows, all_nodes
from xtcl.relations.search import index_name
from xtcl.relations.sparse import CSRGraph, SparseRows
from xtcl.relations.store.key import (
    CODE_OF_RELATIONS,
    Description,
    canonical,
    circumstances,
    digest,
    is_storable,
)
from xtcl.relations.store.parquet import DamagedFileError
from xtcl.relations.store.relation_store import RelationStore
from xtcl.relations.thresholds import USUAL_RULE
from xtcl.relations.view import ATTRIBUTES, LABELS, LINKS
from xtcl.sampling.candidates import Shuffle, TopB, best_candidates
from xtcl.sampling.partial import PartialPositives, TensorFiles, of_one_process
from xtcl.sampling.patterns import margin_table
from xtcl.sampling.stumps import Stumps, sigmoid

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from xtcl.sampling.xgsampler import XGSampler


@dataclass(frozen=True)
class Positives:
    """The best candidates of every node, best first."""

    nodes: np.ndarray  # int64 [V, B], NO_NODE where there are no more
    scores: np.ndarray  # float32 [V, B], the margin y_hat; -inf there

    @property
    def filled(self) -> np.ndarray:
        """Which places hold a node."""
        return np.asarray(self.nodes != NO_NODE)

    @property
    def probabilities(self) -> np.ndarray:
        """f_u(v), the probability of being alike, [V, B]; 0 where there is no node."""
        return sigmoid(self.scores)

    def likely(self, min_probability: float) -> Positives:
        """The positives with at least this probability, and the best of every node in any case."""
        kept = self.probabilities >= min_probability
        kept[:, :1] = True
        return Positives(
            np.where(kept, self.nodes, NO_NODE), np.where(kept, self.scores, np.float32(-np.inf))
        )

    def precision(self, labels: np.ndarray) -> float:
        """Share of positives with the label of their node, among pairs of known labels."""
        partner = labels[self.nodes]
        known = self.filled & (labels[:, None] >= 0) & (partner >= 0)
        return float((partner == labels[:, None])[known].mean())


class PositiveTable(NamedTuple):
    """Positives of every node, and how far they are trusted."""

    nodes: np.ndarray
    """int64 [V, B], -1 in empty places; a node without any is no anchor."""
    trust: float = 1.0
    """The weight of what is trained with them, beside the attributes."""


class PairFilter(NamedTuple):
    """Pairs that may not be positives, and the only ones that may."""

    exclude: CSRGraph | None
    within: CSRGraph | None

    @classmethod
    def from_matrices(
        cls, exclude: sp.csr_array | None, within: sp.csr_array | None, device: torch.device
    ) -> PairFilter:
        """From sparse 0/1 matrices [V, V]; None: no pair is excluded, none is too far."""
        return cls(
            *(None if m is None else CSRGraph.from_scipy(m, device) for m in (exclude, within))
        )

    def allows(self, nodes: Tensor, row: Tensor, partner: Tensor) -> Tensor | None:
        """Which pairs (nodes[row], partner) may be positives, bool [m]; None for all of them."""
        allowed = None
        if self.exclude is not None:
            allowed = ~self.exclude.has_edges(nodes, row, partner)
        if self.within is not None:
            near = self.within.has_edges(nodes, row, partner)
            allowed = near if allowed is None else allowed & near
        return allowed

    def of_table(self, table: np.ndarray) -> np.ndarray:
        """The table [V, B] without positives that are not allowed."""
        row, column = (torch.from_numpy(part) for part in np.nonzero(table != NO_NODE))
        partner = torch.from_numpy(table)[row, column]
        device = next((part.start.device for part in self if part is not None), row.device)
        allowed = self.allows(all_nodes(len(table)).to(device), row.to(device), partner.to(device))
        if allowed is None:
            return table
        kept = table.copy()
        refused = ~allowed.cpu()
        kept[row[refused].numpy(), column[refused].numpy()] = NO_NODE
        return kept

    def of_rows(self, rows: SparseRows, nodes: Tensor) -> SparseRows:
        """The rows of `nodes` without pairs that are not allowed."""
        allowed = self.allows(nodes, rows.row, rows.node)
        return rows if allowed is None else rows.where(allowed)


@dataclass(frozen=True)
class PositiveLists:
    """A list of positives for every node, of which each step draws some."""

    start: Tensor
    """int64 [V + 1], the list of node u is members[start[u] : start[u + 1]]."""
    members: Tensor
    """int64 [sum of lengths]"""
    num_per_step: int | None
    """How many positives a step draws for each anchor (None: all)."""
    weight: float = 1.0
    """How much each of them counts in the loss."""

    @classmethod
    def from_table(
        cls, table: np.ndarray, num_per_step: int | None, weight: float = 1.0
    ) -> PositiveLists:
        """From a table [V, B] with -1 in empty places."""
        filled = table >= 0
        start = np.concatenate([[0], np.cumsum(filled.sum(axis=1))])
        members = table[filled].astype(np.int64)
        return cls(torch.from_numpy(start), torch.from_numpy(members), num_per_step, weight)

    @classmethod
    def from_links(
        cls, adjacency: sp.csr_array, num_per_step: int, weight: float = 1.0
    ) -> PositiveLists:
        """Every node's neighbours."""
        start, members = (part.astype(np.int64) for part in (adjacency.indptr, adjacency.indices))
        return cls(torch.from_numpy(start), torch.from_numpy(members), num_per_step, weight)

    def to(self, device: torch.device) -> PositiveLists:
        """The same lists on `device`."""
        start, members = self.start.to(device), self.members.to(device)
        return PositiveLists(start, members, self.num_per_step, self.weight)

    @cached_property
    def max_length(self) -> int:
        """The length of the longest list; cached, since a captured step may not wait for it."""
        return int(self.start.diff().max())

    def draw(self, nodes: Tensor, generator: torch.Generator) -> Tensor:
        """`num_per_step` members for each of `nodes`, with replacement; -1 for an empty list.

        Without a number all members, filled up with -1.
        """
        first = self.start[nodes, None]
        length = self.start[nodes + 1, None] - first
        if self.num_per_step is None:
            place = torch.arange(self.max_length, device=nodes.device).expand(len(nodes), -1)
        else:
            shape = len(nodes), self.num_per_step
            uniform = torch.rand(*shape, generator=generator, device=nodes.device)
            place = (uniform * length).long().minimum((length - 1).clamp_min(0))
        if not len(self.members):
            return torch.full_like(place, -1)
        drawn = self.members[(first + place).clamp_max(len(self.members) - 1)]
        # A mask, not a selection: its size would have to be read back from a GPU.
        return drawn.masked_fill(place >= length, -1)


def draw_positives(
    sources: list[PositiveLists], nodes: Tensor, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Positives [n, B] of `nodes` from all sources side by side, and their weights [n, B]."""
    drawn = [source.draw(nodes, generator) for source in sources]
    weights = [
        torch.full(positives.shape, source.weight, device=nodes.device)
        for source, positives in zip(sources, drawn, strict=True)
    ]
    return torch.cat(drawn, dim=1), torch.cat(weights, dim=1)


def find_positives(
    rows: RelationRows,
    stumps: Stumps,
    number: int,
    *,
    seed: int,
    height: int,
    tie_break: Relation | None = None,
    exclude: sp.csr_array | None = None,
    within: sp.csr_array | None = None,
    above_only: bool = True,
    progress: Callable[[int], None] = lambda done: None,
    checkpoints: TensorFiles | None = None,
) -> Positives:
    """The `number` best candidates of every node, in blocks of `height` nodes.

    `exclude` and `within` are sparse 0/1 matrices: pairs that are no candidates, and the only ones
    that are. Without `above_only`, in exact mode, a node above for no relation is a candidate, too.
    Ranks share the nodes, and each of them gets the positives of all. One process alone goes on
    from what `checkpoints` have of an interrupted pass. Cost: one pass over the rows of all nodes.
    """
    margins = margin_table(stumps, above_only)
    table = torch.tensor(margins, dtype=torch.float32, device=rows.device)
    shuffle = Shuffle(rows.num_nodes, seed, rows.device)
    ranks = world()
    every_node = all_nodes(rows.num_nodes)
    own = ranks.share(every_node)
    found = PartialPositives(of_one_process(checkpoints), rows.num_nodes, number)
    if found.num_found:
        progress(found.num_found)
    left = own[found.num_found :]
    # The rest of an interrupted pass would be stored as a file that is never read.
    passed = rows.over(left, every_node, write=len(left) == len(own))
    with local_work(), found.saved_on_error(), passed as passing:
        candidates = passing.scorer(table, number, tie_break, exclude, within)

        def best(queries: Tensor) -> TopB:
            return best_candidates(candidates(queries), queries, shuffle, number)

        for block in run_in_blocks(best, left.to(rows.device), height):
            found.add(block)
            progress(ranks.world_size * len(block.nodes))  # other ranks are about as far
    nodes, scores = (part.numpy() for part in found.joined())
    return Positives(ranks.gather(nodes), ranks.gather(scores))


CODE_OF_POSITIVES = (*CODE_OF_RELATIONS, "xtcl.config", "xtcl.sampling")
"""Packages whose code decides positives."""


MAX_STORED = np.iinfo(np.uint8).max
"""Most positives of a node that the store can keep: a level counts their places."""


@dataclass(frozen=True)
class StoredPositives:
    """The file of the relation store for the positives of a fitted sampler.

    They depend on the training data, the relations, the learned weights and the seed. They do not
    depend on what follows them, so fits with other encoders or other training share them. In the
    file, the score of v for u is the similarity, and the place of v among the positives of u,
    counted from 1, is the level.
    """

    store: RelationStore
    description: Description
    number: int

    @classmethod
    def of(
        cls,
        sampler: XGSampler,
        number: int,
        exclude: sp.csr_array | None,
        hops: int | None = None,
    ) -> StoredPositives | None:
        """None where positives are not stored.

        Those of a relation whose rows are not stored are not.
        """
        storable = all(is_storable(relation) for relation in sampler.relations_)
        store = sampler.opened_store
        if store is None or number > MAX_STORED or not storable:
            return None
        return cls(store, describe_positives(sampler, number, exclude, hops), number)

    def read(self) -> tuple[Positives, dict[str, float]] | None:
        """The positives, and the share of the best that an index found for them, by relation.

        None where they are not stored, or not for all ranks: these have to find them together.
        """
        read = self._read()
        on_all_ranks = world().gather(np.array([read is not None])).all()
        return read if on_all_ranks else None

    def _read(self) -> tuple[Positives, dict[str, float]] | None:
        stored = self.store.opened(self.description)
        if stored is None:
            return None
        try:
            with stored:
                rows = stored.rows(0, stored.num_nodes)
                recall = dict(stored.notes.get(_RECALL, {}))
        except DamagedFileError as damage:
            warnings.warn(str(damage), stacklevel=4)
            return None
        u, v, score, place = rows.to_numpy()
        nodes = np.full((rows.num_rows, self.number), NO_NODE, dtype=np.int64)
        scores = np.full((rows.num_rows, self.number), -np.inf, dtype=np.float32)
        where = u, place.astype(np.int64) - 1
        nodes[where], scores[where] = v, score
        return Positives(nodes, scores), recall

    def write(self, found: Positives, index_recall: dict[str, float]) -> None:
        """Store what was found. Of several ranks, the first does."""
        if not world().is_main:
            return
        every_node = np.arange(len(found.nodes))
        try:
            with self.store.writing_as(self.description, every_node) as writer:
                writer.append(every_node, _as_rows(found))
                writer.notes = {_RECALL: index_recall} if index_recall else {}
        except OSError as error:
            warnings.warn(
                f"Positives are computed but not stored: the relation store cannot be written to "
                f"({error}). Make room for it, or name another folder.",
                stacklevel=3,
            )


_RECALL = "index_recall"


def describe_positives(
    sampler: XGSampler, number: int, exclude: sp.csr_array | None, hops: int | None = None
) -> Description:
    """All that decides the positives of a fitted sampler."""
    stumps, settings = sampler.stumps_, sampler.settings_
    learned = {
        "relations": [
            [each.name, _parameters(each), each.content_digest()] for each in sampler.relations_
        ],
        "base": float(stumps.base).hex(),
        "weights": hashlib.sha256(stumps.weights.astype("<f8").tobytes()).hexdigest(),
        "tie break": settings.tie_break,
        "unwanted": None if exclude is None else _digest(exclude),
    }
    reads = frozenset({ATTRIBUTES, LABELS, LINKS})
    return circumstances(sampler.view_, reads, CODE_OF_POSITIVES) | {
        "rows": "all",
        "relation": "positives",
        "parameters": {
            "number": number,
            "seed": sampler.random_state_,
            "learned": hashlib.sha256(canonical(learned).encode()).hexdigest()[:16],
        }
        | _capped(settings)
        | _switches(settings, hops),
        "quantiles": list(settings.quantiles),
    }


def _capped(settings: SamplerConfig) -> dict[str, object]:
    if settings.cap is None:
        return {}
    return {"cap": settings.cap} | index_name(settings.index_past)


def _switches(settings: SamplerConfig, hops: int | None) -> dict[str, object]:
    """What else decides the candidates, where it is not as usual."""
    rule = {} if settings.above_rule == USUAL_RULE else settings.above_rule._asdict()
    everywhere = {} if settings.above_only else {"above_only": False}
    return rule | everywhere | ({} if hops is None else {"hops": hops})


def _parameters(relation: Relation) -> dict[str, object]:
    return asdict(cast("DataclassInstance", relation))


def _digest(matrix: sp.csr_array) -> str:
    ordered = matrix if matrix.has_sorted_indices else matrix.sorted_indices()
    return digest(ordered.indptr, ordered.indices)


def _as_rows(found: Positives) -> SparseRows:
    """In the order of the store: by u, then v."""
    u, place = np.nonzero(found.filled)
    v = found.nodes[u, place]
    order = np.lexsort((v, u))
    u, place, v = u[order], place[order], v[order]
    columns = (u, v, found.scores[u, place], (place + 1).astype(np.uint8))
    row, node, score, level = (torch.from_numpy(column) for column in columns)
    return SparseRows(row, node, len(found.nodes), score, level)
