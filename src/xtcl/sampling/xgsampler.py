"""XGSampler: which nodes are alike for the task, learned from the pairs whose answer is known."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import scipy.sparse as sp

from xtcl.errors import DataError, NotFittedError, UsageError
from xtcl.ranks import alone, ranks
from xtcl.relations.capped_rows import LISTED_ROWS, CappedRows
from xtcl.relations.pattern_rows import PatternRows, block_height, usable
from xtcl.relations.registry import make_relation, resolve_relations
from xtcl.relations.relation import Relation
from xtcl.relations.store.relation_store import RelationStore
from xtcl.relations.view import TrainingView
from xtcl.sampling.counting import count_patterns
from xtcl.sampling.findings import PairExplanation, PairSignal, RelationWeight
from xtcl.sampling.fold import Fold
from xtcl.sampling.pair_similarities import pair_similarities
from xtcl.sampling.patterns import PatternCounts, check_code_fits
from xtcl.sampling.positives import Positives, find_positives
from xtcl.sampling.settings import SamplerSettings
from xtcl.sampling.stumps import (
    Stumps,
    fit_stumps,
    precision,
    prior_log_odds,
    sigmoid,
    training_order,
    with_prior,
)


class XGSampler:
    r"""Boosted stumps over semantic relations, with weights shared by all nodes.

    .. math:: f_u(v) = \sigma\Big(\sum_r f_{r,u}(v)\Big), \qquad
              f_{r,u}(v) = w_{r,0} \text{ if } s_r(u,v) < \eta_{r,u} \text{ else } w_{r,1}

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
    stumps_: Stumps
    view_: TrainingView

    def __init__(
        self,
        relations: str | Iterable[str | Relation] = "paper",
        settings: SamplerSettings | None = None,
        *,
        block_rows: int | None = None,
        seed: int = 0,
        store: RelationStore | None = None,
    ) -> None:
        self.relations = relations
        self.settings = settings or SamplerSettings()
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
        shares = ranks().shares([len(fold.queries) for fold in folds])
        with alone():
            for fold, own in zip(folds, shares, strict=True):
                rows = self._rows_of(fold.view)
                tables.append(count_patterns(fold, rows, self._height(view), own))
                progress(1)
        return self._fit_counts(view, sum(tables[1:], start=tables[0]).of_all_ranks())

    def restore(self, view: TrainingView, counts: PatternCounts) -> XGSampler:
        """Fit again from the counts of an earlier fit, which are all that it learned from."""
        self._choose_relations(view)
        return self._fit_counts(view, counts)

    def _bind(self, rows: PatternRows | CappedRows) -> None:
        """Divide among ranks what the relations do once; one alone does it when it is needed."""
        if ranks().number > 1 and self.store is None:
            rows.bind()

    def _choose_relations(self, view: TrainingView) -> None:
        settings = self.settings.checked()
        if self.block_rows is not None and self.block_rows < 1:
            raise UsageError(f"block_rows={self.block_rows} must be at least 1, or None.")
        self.relations_, self.left_out_ = usable(resolve_relations(self.relations), view)
        if not self.relations_:
            raise DataError(
                "None of the chosen relations can be computed: "
                + "; ".join(f"{name} lacks {', '.join(k)}" for name, k in self.left_out_.items())
                + ". Give the graph what is lacking, or choose other relations."
            )
        check_code_fits(len(self.relations_), len(settings.quantiles))

    def _fit_counts(self, view: TrainingView, table: PatternCounts) -> XGSampler:
        self.view_, self.counts_ = view, table
        self._rows: PatternRows | CappedRows | None = None
        settings, counts = self.settings, self.counts_.counts
        digits = self.counts_.levels(len(self.relations_), len(settings.quantiles))
        top = len(settings.quantiles)
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
        self.stumps_ = stumps.centred(*believed) if isinstance(base, str) else stumps
        self.relation_weights_ = tuple(
            RelationWeight(
                relation=self.relations_[r].name,
                order=place + 1,
                precision=float(precisions[r]),
                support=int(support[r]),
                w0=float(self.stumps_.weights[r, 0]),
                w1=float(self.stumps_.weights[r, -1]),
                importance=float(np.abs(self.stumps_.weights[r]).max()),
                weights=tuple(float(w) for w in self.stumps_.weights[r]),
            )
            for place, r in enumerate(order)
        )
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
        self._bind(rows)
        return find_positives(
            rows,
            self.stumps_,
            number,
            seed=self.seed,
            height=self._height(self.view_),
            tie_break=self._tie_break(),
            exclude=exclude,
            progress=progress,
        )

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

        With a cap, similarities without factors count as 0 beyond the cap best of a row.
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

    def _fitted_rows(self) -> PatternRows | CappedRows:
        if not hasattr(self, "stumps_"):
            raise NotFittedError("This sampler knows no weights yet; call fit first.")
        if self._rows is None:
            self._rows = self._rows_of(self.view_)
        return self._rows

    def _rows_of(self, view: TrainingView) -> PatternRows | CappedRows:
        quantiles, cap = self.settings.quantiles, self.settings.cap
        if cap is None:
            return PatternRows(self.relations_, view, quantiles, self.store)
        return CappedRows(self.relations_, view, quantiles, cap, self.settings.index_past)

    def _height(self, view: TrainingView) -> int:
        usual = block_height(view.num_nodes) if self.settings.cap is None else LISTED_ROWS
        return self.block_rows or usual
