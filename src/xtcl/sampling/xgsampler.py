"""XGSampler: which nodes are alike for the task, learned from the pairs whose answer is known."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
import torch

from xtcl.config import SamplerConfig
from xtcl.distributed import local_work, world
from xtcl.errors import DataError, NotFittedError, UsageError
from xtcl.relations.blocks import rows_per_block
from xtcl.relations.registry import make_relation, resolve_relations
from xtcl.relations.relation import Relation
from xtcl.relations.row_source import TOPK_BLOCK_ROWS, Levels
from xtcl.relations.rows import DenseRows, usable_relations
from xtcl.relations.store.relation_store import RelationStore
from xtcl.relations.topk_rows import TopKRows, pair_similarities
from xtcl.relations.view import TrainingView
from xtcl.sampling.counting import GroupCounts, assign_groups, count_groups
from xtcl.sampling.folds import Fold
from xtcl.sampling.patterns import PatternCounts, check_code_fits, num_patterns
from xtcl.sampling.positives import Positives, cached_positives, find_positives
from xtcl.sampling.stumps import (
    Stumps,
    fit_stumps,
    precision,
    prior_log_odds,
    sigmoid,
    training_order,
    with_prior,
)


def tiles_are_tall(device: torch.device) -> bool:
    """Whether rows of a fold would leave tiles of the device half empty."""
    return device.type != "cpu"


class XGSampler:
    """Boosted stumps over semantic relations, with weights shared by all nodes.

        f_u(v) = sigmoid(sum over r of f_ru(v))
        f_ru(v) = w_r0 where s_r(u, v) is below the threshold eta_ru, else w_r1

    Fitting needs integer counts of patterns only, so it is exact and the same for any block size.
    Cost: one pass over the relations' rows of the labelled nodes to fit, one over all rows to find
    positives. With a `store` both are read from it once they were computed, but for the
    similarities of the relation that breaks ties.

    Citation: Lin and Neville, "Improving Node Representation by Boosting Task-Aware Contrastive
    Loss", 2024, Section 3 and Algorithm 1.
    """

    relation_weights_: tuple[RelationWeight, ...]
    relations_: tuple[Relation, ...]
    left_out_: dict[str, list[str]]
    counts_: PatternCounts
    groups_: GroupCounts | None
    stumps_: Stumps
    view_: TrainingView
    index_recall_: dict[str, float]
    """By relation the share of the nearest that an index found; empty where all was searched."""

    def __init__(
        self,
        relations: str | Iterable[str | Relation] = "paper",
        settings: SamplerConfig | None = None,
        *,
        block_rows: int | None = None,
        seed: int = 0,
        store: RelationStore | None = None,
    ) -> None:
        self.relations = relations
        self.settings = settings or SamplerConfig()
        self.block_rows = block_rows
        self.seed = seed
        self.store = store

    def fit(
        self,
        view: TrainingView,
        folds: Sequence[Fold],
        progress: Callable[[int], None] = lambda done: None,
    ) -> XGSampler:
        """Learn the weights from `folds`; positives will be sought in `view`."""
        if not folds:
            raise UsageError("The sampler needs at least one fold of pairs to fit, and got none.")
        self._choose_relations(view)
        self._bind(self._rows_of(view))
        tables = []
        # All folds end to end: a rank then has few of them, and prepares the relations of no more.
        shares = world().shares([len(fold.queries) for fold in folds])
        group = assign_groups(folds, self.seed)
        kept = self._kept_levels(view, folds)
        with local_work():
            for fold, own in zip(folds, shares, strict=True):
                rows = self._rows_of(fold.view, kept)
                tables.append(count_groups(fold, rows, self._height(view), group, own))
                progress(1)
        total = sum(tables[1:], start=tables[0]).of_all_ranks()
        groups = GroupCounts(total, self._patterns)
        return self._fit_counts(view, groups.whole(), groups)

    def restore(
        self, view: TrainingView, counts: PatternCounts, by_group: PatternCounts | None = None
    ) -> XGSampler:
        """Fit again from the counts of an earlier fit, which are all that it learned from.

        `by_group` are those of its groups, where they were kept: intervals need them, weights not.
        """
        self._choose_relations(view)
        groups = None if by_group is None else GroupCounts(by_group, self._patterns)
        return self._fit_counts(view, counts, groups)

    @property
    def _patterns(self) -> int:
        return num_patterns(len(self.relations_), len(self.settings.quantiles))

    def _bind(self, rows: DenseRows | TopKRows) -> None:
        """Divide among ranks what the relations do once; one alone does it when it is needed."""
        if world().number > 1 and self.store is None:
            rows.bind()

    def _choose_relations(self, view: TrainingView) -> None:
        settings = self.settings.validated()
        if self.block_rows is not None and self.block_rows < 1:
            raise UsageError(f"block_rows={self.block_rows} must be at least 1, or None.")
        self.relations_, self.left_out_ = usable_relations(resolve_relations(self.relations), view)
        if not self.relations_:
            raise DataError(
                "None of the chosen relations can be computed: "
                + "; ".join(f"{name} lacks {', '.join(k)}" for name, k in self.left_out_.items())
                + ". Give the graph what is lacking, or choose other relations."
            )
        check_code_fits(len(self.relations_), len(settings.quantiles))

    def _fit_counts(
        self, view: TrainingView, table: PatternCounts, groups: GroupCounts | None
    ) -> XGSampler:
        self.view_, self.counts_, self.groups_ = view, table, groups
        self._rows: DenseRows | TopKRows | None = None
        self.index_recall_ = {}
        names = [relation.name for relation in self.relations_]
        self.stumps_, self.relation_weights_ = fit_weights(names, self.settings, table)
        return self

    def positives(
        self,
        number: int,
        *,
        exclude: sp.csr_array | None = None,
        progress: Callable[[int], None] = lambda done: None,
    ) -> Positives:
        """The `number` nodes with the highest f_u(v) for every u; see `xtcl.sampling.positives`.

        `exclude` is a sparse 0/1 matrix of pairs that may not be chosen.
        """
        if number < 1:
            raise UsageError(f"The number of positives must be at least 1, not {number}.")
        rows = self._fitted_rows()

        def find() -> Positives:
            self._bind(rows)
            found = find_positives(
                rows,
                self.stumps_,
                number,
                seed=self.seed,
                height=self._height(self.view_),
                tie_break=self._tie_break(),
                exclude=exclude,
                progress=progress,
            )
            if isinstance(rows, TopKRows):
                self.index_recall_ = rows.index_recall
            return found

        return cached_positives(self.store, self, number, exclude, find)

    def __getstate__(self) -> dict[str, Any]:
        """The state to pickle, without the rows of relations: they are computed again."""
        return {name: None if name == "_rows" else value for name, value in vars(self).items()}

    def forget_relations(self) -> None:
        """Let go of what the relations are made of; what asks for them makes it again."""
        self._rows = None
        self.view_.forget()

    def _tie_break(self) -> Relation | None:
        """The relation that breaks ties, one of our own where it is among them."""
        name = self.settings.tie_break
        if name is None:
            return None
        own = {relation.name: relation for relation in self.relations_}
        relation = own.get(name) or make_relation(name)
        return relation if relation.reads <= self.view_.evidence else None

    def similarities(self, pairs: np.ndarray) -> np.ndarray:
        """s_r(u, v) of pairs [2, n], float32 [n, R] in the order of `relations_`.

        With a cap, on large graphs PageRank and graph distance count as 0 beyond the best of a row.
        """
        return pair_similarities(self._fitted_rows(), pairs, self._height(self.view_))

    def explain(self, u: int, v: int) -> PairExplanation:
        """Which relations speak for v as a positive of u, and how loudly."""
        rows = self._fitted_rows()
        for node in (u, v):
            if not 0 <= node < rows.num_nodes:
                raise UsageError(
                    f"Node {node} does not exist; nodes are 0 to {rows.num_nodes - 1}."
                )
        signals = []
        for relation, weights in zip(self.relations_, self.stumps_.weights, strict=True):
            found = rows.standing(relation, u, v)
            signals.append(PairSignal(relation.name, *found, weight=float(weights[found.level])))
        score = self.stumps_.base + sum(signal.weight for signal in signals)
        strongest = tuple(sorted(signals, key=lambda signal: -abs(signal.weight)))
        chance = float(sigmoid(np.array(score)))
        return PairExplanation(u, v, self.stumps_.base, strongest, score, chance)

    def probability(self, u: int, v: int) -> float:
        """f_u(v): how likely u and v are alike for the task."""
        return self.explain(u, v).probability

    def _fitted_rows(self) -> DenseRows | TopKRows:
        if not hasattr(self, "stumps_"):
            raise NotFittedError("This sampler knows no weights yet; call fit first.")
        if self._rows is None:
            self._rows = self._rows_of(self.view_)
        return self._rows

    def _kept_levels(self, view: TrainingView, folds: Sequence[Fold]) -> dict[str, Levels]:
        """The levels of all folds' queries that do not hang on labels, for a GPU.

        It computes rows in tiles so high that those of a fold would be half empty. Only where one
        block has room for all queries.
        """
        queries = np.unique(np.concatenate([fold.queries for fold in folds]))
        rows = self._rows_of(view)
        if (
            isinstance(rows, TopKRows)
            or not tiles_are_tall(rows.device)
            or self.store is not None
            or world().number > 1
            or len(queries) > self._height(view)
            or any(fold.view.shared is not view.shared for fold in folds)
        ):
            return {}
        try:
            return rows.kept(torch.from_numpy(queries))
        except torch.OutOfMemoryError:
            return {}

    def _rows_of(
        self, view: TrainingView, kept: dict[str, Levels] | None = None
    ) -> DenseRows | TopKRows:
        quantiles, cap = self.settings.quantiles, self.settings.cap
        if cap is None:
            return DenseRows(self.relations_, view, quantiles, self.store, kept)
        index_past = self.settings.index_past
        return TopKRows(self.relations_, view, quantiles, cap, index_past, self.store)

    def _height(self, view: TrainingView) -> int:
        usual = (
            rows_per_block(view.num_nodes, view.device)
            if self.settings.cap is None
            else TOPK_BLOCK_ROWS
        )
        return self.block_rows or usual


@dataclass(frozen=True)
class RelationWeight:
    """What the sampler learned about one relation.

    `order` is its place in the training order (1 is first), `precision` the share of matches among
    the `support` counted pairs at its highest level, `w0` and `w1` the weights of a pair below all
    thresholds and above all of them, `weights` the weight of every level, `importance` the largest
    of their absolute values: the paper's max(|w0|, |w1|).
    """

    relation: str
    order: int
    precision: float
    support: int
    w0: float
    w1: float
    importance: float
    weights: tuple[float, ...]

    def to_json(self) -> dict[str, object]:
        """Plain values for a JSON file."""
        return asdict(self) | {"weights": list(self.weights)}


@dataclass(frozen=True)
class PairSignal:
    """One relation's part in the score of one pair."""

    relation: str
    similarity: float
    thresholds: tuple[float, ...]
    level: int
    weight: float


@dataclass(frozen=True)
class PairExplanation:
    """Why v is a positive of u or not: the signals, strongest first, and what they add up to."""

    u: int
    v: int
    base: float
    signals: tuple[PairSignal, ...]
    score: float
    probability: float


def counts_to_arrays(sampler: XGSampler) -> dict[str, np.ndarray]:
    """The counts of a fitted sampler, and those of its groups where it has them."""
    arrays = {"codes": sampler.counts_.codes, "counts": sampler.counts_.counts}
    if sampler.groups_ is None:
        return arrays
    table = sampler.groups_.table
    return arrays | {"group_codes": table.codes, "group_counts": table.counts}


def sampler_from_counts(
    sampler: XGSampler, view: TrainingView, arrays: Mapping[str, np.ndarray]
) -> XGSampler:
    """The sampler, fitted from what `counted` gave; older files have no groups."""
    by_group = None
    if "group_codes" in arrays:
        by_group = PatternCounts(arrays["group_codes"], arrays["group_counts"])
    return sampler.restore(view, PatternCounts(arrays["codes"], arrays["counts"]), by_group)


class FittedWeights(NamedTuple):
    """The stumps, and the weights they come to, in training order."""

    stumps: Stumps
    weights: tuple[RelationWeight, ...]


def fit_weights(
    names: Sequence[str], settings: SamplerConfig, table: PatternCounts
) -> FittedWeights:
    """Fit the stumps of the relations `names`, the digits of the codes, to counts of patterns."""
    top = len(settings.quantiles)
    digits, counts = table.levels(len(names), top), table.counts
    precisions, support = precision(digits, counts, top)
    order = training_order(precisions, support)
    base = settings.base_score
    believed = with_prior(digits, counts, top, settings.prior_pairs)
    stumps = fit_stumps(
        *believed,
        num_levels=top + 1,
        order=order,
        base=prior_log_odds(counts) if isinstance(base, str) else float(base),
        sweeps=settings.sweeps,
        penalty=settings.penalty,
        guarded=isinstance(base, str),
    )
    if isinstance(base, str):
        stumps = stumps.centred(*believed)
    weights = tuple(
        RelationWeight(
            relation=names[r],
            order=place + 1,
            precision=float(precisions[r]),
            support=int(support[r]),
            w0=float(stumps.weights[r, 0]),
            w1=float(stumps.weights[r, -1]),
            importance=float(np.abs(stumps.weights[r]).max()),
            weights=tuple(float(w) for w in stumps.weights[r]),
        )
        for place, r in enumerate(order)
    )
    return FittedWeights(stumps, weights)
