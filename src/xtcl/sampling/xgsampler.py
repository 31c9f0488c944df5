"""XGSampler: which nodes are alike for the task, learned from pairs whose label is known."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from xtcl.config import SamplerConfig
from xtcl.distributed import drawn_seed, local_work, world
from xtcl.errors import DataError, UsageError, check_is_fitted, check_whole, is_whole
from xtcl.relations.arrays import node_array, pair_array
from xtcl.relations.registry import ResolvedRelations, make_relation, resolve_relations
from xtcl.relations.relation import Relation
from xtcl.relations.row_source import Levels
from xtcl.relations.rows import RelationRows, make_rows, pair_similarities, usable_relations
from xtcl.relations.sparse import within_hops
from xtcl.relations.store.relation_store import RelationStore, as_store
from xtcl.relations.view import TrainingView
from xtcl.renamed import renamed_keywords, warn_renamed
from xtcl.sampling.folds import Fold, label_folds, pair_folds
from xtcl.sampling.inputs import check_has_labels, pair_matrix, view_with_labels
from xtcl.sampling.partial import TensorFiles, load_counts, of_one_process, save_counts
from xtcl.sampling.patterns import (
    GroupCounts,
    PatternCounts,
    assign_groups,
    check_code_fits,
    count_groups,
    num_patterns,
)
from xtcl.sampling.positives import Positives, StoredPositives, find_positives
from xtcl.sampling.probabilities import (
    PairExplanation,
    PairSignal,
    probabilities_of_nodes,
    probabilities_of_pairs,
)
from xtcl.sampling.stumps import Stumps, sigmoid
from xtcl.sampling.weights import RelationWeight, WeightInterval, fit_weights, weight_intervals


class XGSampler(BaseEstimator):  # type: ignore[misc]
    """Boosted stumps over semantic relations, with weights shared by all nodes.

        f_u(v) = sigmoid(sum over r of f_ru(v))
        f_ru(v) = w_r0 where s_r(u, v) is below the threshold eta_ru, else w_r1

    Fitting needs integer counts of patterns only, so it is exact and the same for any block size.
    Cost: one pass over the relations' rows of the labelled nodes to fit, one over all rows to find
    positives. With a `store` both are read from it once they were computed, except for the
    similarities of the relation that breaks ties.

    Citation: Lin and Neville, "Improving Node Representation by Boosting Task-Aware Contrastive
    Loss", 2024, Section 3 and Algorithm 1.

    Args:
        relations: names, or relations themselves; "paper" are the nine of the paper.
        settings: the settings of the stumps, by default `SamplerConfig()`. `XTCL("nodes")` has
            `SamplerConfig(prior_pairs=10)`.
        crossfit: the number of folds in which `fit` hides labels from the relations; 0 for none, as
            in the paper.
        block_rows: how many rows are worked on at a time; it changes nothing of the result.
        random_state: seeds the folds and the ties among positives, as in `XTCL`: one of the same
            `random_state` has the same ones. None takes another seed in each fit.
        store: a folder or a RelationStore, which keeps the rows of relations for other fits.

    """

    random_state_: int
    """The seed of the fit."""

    settings_: SamplerConfig
    relation_weights_: tuple[RelationWeight, ...]
    relations_: tuple[Relation, ...]
    left_out_: dict[str, list[str]]
    """The chosen relations that the data do not suffice for, and what is missing for each."""
    counts_: PatternCounts
    groups_: GroupCounts | None
    stumps_: Stumps
    view_: TrainingView
    index_recall_: dict[str, float]
    """By relation, the share of the best that an index found; empty where none was used."""

    @renamed_keywords(seed="random_state")
    def __init__(
        self,
        relations: str | Iterable[str | Relation] = "paper",
        settings: SamplerConfig | None = None,
        *,
        crossfit: int = 5,
        block_rows: int | None = None,
        random_state: int | np.random.RandomState | None = 0,
        store: str | PathLike[str] | RelationStore | None = None,
    ) -> None:
        self.relations = relations
        self.settings = settings
        self.crossfit = crossfit
        self.block_rows = block_rows
        self.random_state = random_state
        self.store = store

    @property
    def seed(self) -> int | np.random.RandomState | None:
        """The old name of `random_state`."""
        warn_renamed("XGSampler.seed", "random_state")
        return self.random_state

    @property
    def opened_store(self) -> RelationStore | None:
        """The relation store, also where `store` names its folder."""
        return as_store(self.store)

    # Fit: count the patterns of each fold, and fit the stumps to the counts.

    def fit(
        self,
        graph: Any,
        labels: Any = None,
        progress: Callable[[int], None] = lambda done: None,
        *,
        pairs: ArrayLike | None = None,
        alike: ArrayLike | None = None,
    ) -> XGSampler:
        """Learn the weights from labels of nodes, or from pairs.

        Args:
            graph: a `Graph`, a PyG `Data`, a NetworkX graph or a SciPy adjacency matrix. A
                `TrainingView` shows the relations what it holds, on its device.
            labels: a class for each node, [V]; None, NaN, "" or -1 where it is unknown, as
                `Graph.from_arrays` reads them. By default those of the graph; of a PyG `Data` with
                a `train_mask`, those in the mask. A mask of booleans or a `NodeSplit` says which
                labels of the graph count. Nodes of one class are alike. The weights are
                cross-fitted (`crossfit`), with the folds of an `XTCL` that trains on these labels.
            progress: called with 1 after each fold.
            pairs: in place of labels, node numbers [2, n] of the only pairs that count. Of (u, v),
                v is a candidate of u: where the order has no meaning, give both (u, v) and (v, u).
            alike: for each of the pairs, whether it is alike, [n].

        **With pairs nothing is hidden.** Relations read the graph as it is given, and its labels
        (or `labels`) if it has any. There is no cross-fitting: what to hide is not known. So leave
        out of the graph what the pairs ask for. A link that is the target must not be in the graph,
        and labels that decide `alike` must not be among its labels: relations would read the
        answer, and get too much weight.

        """
        if isinstance(graph, TrainingView) and _are_folds(labels):
            warn_renamed("XGSampler.fit(view, folds)", "fit_folds(view, folds)")
            return self.fit_folds(graph, labels, progress)
        if (pairs is None) != (alike is None):
            raise UsageError("pairs= and alike= go together: give both of them, or neither.")
        self._check_parameters()
        view = view_with_labels(graph, labels)
        if pairs is None or alike is None:
            check_has_labels(view)
            self.random_state_ = seed = drawn_seed(self.random_state)
            folds = label_folds(view, None, self.crossfit, np.random.default_rng([seed, 0]))
            return self._fit_folds(view, folds, progress)
        if self.settings is not None and self.settings.self_pairs:
            raise UsageError(
                "self_pairs=True counts every node with itself, and with pairs= only the given "
                "pairs count: leave out one of them."
            )
        folds = pair_folds(view, pair_array(pairs, view.num_nodes), alike)
        return self.fit_folds(view, folds, progress)

    def fit_folds(
        self,
        view: TrainingView,
        folds: Sequence[Fold],
        progress: Callable[[int], None] = lambda done: None,
        *,
        checkpoints: TensorFiles | None = None,
    ) -> XGSampler:
        """Learn the weights from `folds`. Positives will be those of `view`.

        A fold that `checkpoints` have from an interrupted fit of the same folds is not counted
        again.
        """
        self.random_state_ = drawn_seed(self.random_state)
        return self._fit_folds(view, folds, progress, checkpoints)

    def _fit_folds(
        self,
        view: TrainingView,
        folds: Sequence[Fold],
        progress: Callable[[int], None],
        checkpoints: TensorFiles | None = None,
    ) -> XGSampler:
        if not folds:
            raise UsageError("The sampler needs at least one fold of pairs to fit, and got none.")
        self._select_relations(view)
        self._prepare(self._make_rows(view))
        counts = self._count(view, folds, progress, of_one_process(checkpoints))
        groups = GroupCounts(counts, self._num_patterns)
        return self._fit_stumps(view, groups.whole(), groups)

    def restore(
        self, view: TrainingView, counts: PatternCounts, by_group: PatternCounts | None = None
    ) -> XGSampler:
        """Fit again from the counts of an earlier fit, which decide its result.

        `by_group` are those of its groups, where they were kept. Only intervals need them.
        """
        self.random_state_ = drawn_seed(self.random_state)
        self._select_relations(view)
        groups = None if by_group is None else GroupCounts(by_group, self._num_patterns)
        return self._fit_stumps(view, counts, groups)

    def _check_parameters(self) -> None:
        """Refuse parameters that cannot be used."""
        check_whole("crossfit", self.crossfit, 0)
        if self.block_rows is not None:
            check_whole("block_rows", self.block_rows, 1)
        if not isinstance(self.settings, SamplerConfig | None):
            raise UsageError(
                f"settings={self.settings!r} must be a SamplerConfig, such as "
                "SamplerConfig.paper(), or None."
            )
        _ = self.opened_store  # refuses what is no store

    def _select_relations(self, view: TrainingView) -> None:
        self._check_parameters()
        self.settings_ = settings = (self.settings or SamplerConfig()).validated()
        relations = self.relations
        if not isinstance(relations, ResolvedRelations):  # those of a fit are
            relations = resolve_relations(relations, printed=settings.printed_relations)
        self.relations_, self.left_out_ = usable_relations(relations, view)
        if not self.relations_:
            raise DataError(
                "None of the chosen relations can be computed: "
                + "; ".join(f"{name} lacks {', '.join(k)}" for name, k in self.left_out_.items())
                + ". Give the graph what is lacking, or choose other relations."
            )
        check_code_fits(len(self.relations_), len(settings.quantiles))

    def _make_rows(
        self, view: TrainingView, cached: dict[str, Levels] | None = None
    ) -> RelationRows:
        settings = self.settings_
        return make_rows(
            self.relations_,
            view,
            settings.quantiles,
            cap=settings.cap,
            index_past=settings.index_past,
            store=self.opened_store,
            cached=cached,
            rule=settings.above_rule,
        )

    def _prepare(self, rows: RelationRows) -> None:
        """Divide among ranks what relations compute once. One process does it when needed."""
        if world().world_size > 1 and self.store is None:
            rows.prepare()

    def _count(
        self,
        view: TrainingView,
        folds: Sequence[Fold],
        progress: Callable[[int], None],
        checkpoints: TensorFiles | None,
    ) -> PatternCounts:
        """Counts of patterns by groups of nodes, of all folds and all ranks."""
        # All folds end to end: a rank has few of them, and prepares the relations of these only.
        shares = world().shares([len(fold.queries) for fold in folds])
        group = assign_groups(folds, self.random_state_)
        cached = self._cached_levels(view, folds)
        self_pairs = self.settings_.self_pairs
        tables = []
        with local_work():
            for number, (fold, own) in enumerate(zip(folds, shares, strict=True)):
                table = load_counts(checkpoints, number)
                if table is None:
                    rows = self._make_rows(fold.view, cached)
                    height = self._height(rows)
                    table = count_groups(fold, rows, height, group, own, self_pairs=self_pairs)
                    save_counts(checkpoints, number, table)
                tables.append(table)
                progress(1)
        return sum(tables[1:], start=tables[0]).of_all_ranks()

    def _cached_levels(self, view: TrainingView, folds: Sequence[Fold]) -> dict[str, Levels]:
        """The levels of all folds' queries that do not depend on labels, for a GPU.

        It computes rows in tiles so high that those of one fold would leave half of a tile empty.
        Only where one block has room for all queries.
        """
        if (
            not tiles_are_tall(view.device)
            or self.store is not None
            or world().world_size > 1
            or any(fold.view.label_free_cache is not view.label_free_cache for fold in folds)
        ):
            return {}
        queries = np.unique(np.concatenate([fold.queries for fold in folds]))
        rows = self._make_rows(view)
        if len(queries) > self._height(rows):
            return {}
        try:
            return rows.cached_levels(torch.from_numpy(queries))
        except torch.OutOfMemoryError:
            return {}

    def _fit_stumps(
        self, view: TrainingView, counts: PatternCounts, groups: GroupCounts | None
    ) -> XGSampler:
        self.view_, self.counts_, self.groups_ = view, counts, groups
        self._rows: RelationRows | None = None
        self.index_recall_ = {}
        self._intervals: dict[str, WeightInterval] | None = None
        names = [relation.name for relation in self.relations_]
        self.stumps_, self.relation_weights_ = fit_weights(names, self.settings_, counts)
        return self

    @property
    def weight_intervals_(self) -> dict[str, WeightInterval]:
        """By relation, 95 % intervals of the weight of a pair above, and of the precision.

        Computed on first use, by drawing nodes u with replacement
        (`xtcl.sampling.weights`). Empty where the pairs are of fewer than five nodes u.
        """
        check_is_fitted(self, "stumps_", "fit")
        if self._intervals is None:
            self._intervals = weight_intervals(self)
        return self._intervals

    @property
    def _num_patterns(self) -> int:
        return num_patterns(len(self.relations_), len(self.settings_.quantiles))

    def _height(self, rows: RelationRows) -> int:
        return self.block_rows or rows.block_rows

    # Positives: the best candidates of every node.

    def positives(
        self,
        number: int,
        *,
        exclude: sp.csr_array | None = None,
        hops: int | None = None,
        progress: Callable[[int], None] = lambda done: None,
        checkpoints: TensorFiles | None = None,
    ) -> Positives:
        """The `number` nodes with the highest f_u(v) for every u; see `xtcl.sampling.positives`.

        `exclude` is a sparse 0/1 matrix of pairs that may not be chosen. With `hops` only nodes at
        most so many links away are candidates (Section 3.3 of the paper). Positives that
        `checkpoints` have from the same call, interrupted, are not searched for again.
        """
        number = check_whole("number", number, 1)
        if hops is not None:
            hops = check_whole("hops", hops, 1)
        rows = self._fitted_rows()
        if exclude is not None:
            exclude = pair_matrix("exclude", exclude, rows.num_nodes)
        stored = StoredPositives.of(self, number, exclude, hops)
        if stored is not None and (read := stored.read()) is not None:
            found, self.index_recall_ = read
            return found
        self._prepare(rows)
        found = find_positives(
            rows,
            self.stumps_,
            number,
            seed=self.random_state_,
            height=self._height(rows),
            tie_break=self._tie_break(),
            exclude=exclude,
            within=None if hops is None else within_hops(self.view_.adjacency, hops),
            above_only=self.settings_.above_only,
            progress=progress,
            checkpoints=checkpoints,
        )
        self.index_recall_ = rows.index_recall
        if stored is not None:
            stored.write(found, self.index_recall_)
        return found

    def _tie_break(self) -> Relation | None:
        """The relation that breaks ties: the fitted one of that name, if there is one."""
        name = self.settings_.tie_break
        if name is None:
            return None
        own = {relation.name: relation for relation in self.relations_}
        relation = own.get(name) or make_relation(name)
        return relation if relation.reads <= self.view_.available else None

    def _fitted_rows(self) -> RelationRows:
        check_is_fitted(self, "stumps_", "fit")
        if self._rows is None:
            self._rows = self._make_rows(self.view_)
        return self._rows

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "stumps_")

    def __getstate__(self) -> dict[str, Any]:
        """The state to pickle, without the rows of relations, which are computed again."""
        return {name: None if name == "_rows" else value for name, value in vars(self).items()}

    def use_store(self, store: RelationStore | None) -> None:
        """Keep rows of relations there from now on; what was computed stays."""
        self.store = store
        if self._rows is not None:
            self._rows.store = store

    def forget_relations(self) -> None:
        """Free what the relations have computed. It is computed again when needed."""
        self._rows = None
        self.view_.clear_cache()

    # Probabilities of pairs, and their explanations.

    def predict_proba(self, pairs_or_nodes: ArrayLike) -> np.ndarray:
        """f_u(v), how likely v is alike to u, of pairs or of all pairs of some nodes.

        For pairs [2, n] the result is [n]. For nodes [b], numbers or a mask of all nodes, it is
        [b, V]: row i has f_u(v) of the i-th of them with all nodes. A node with itself is above for
        no relation, so it has the probability of such a pair. It is that of `explain` in every
        case. Cost: that of the rows of all different u.
        """
        rows = self._fitted_rows()
        height = self._height(rows)
        if np.ndim(pairs_or_nodes) == 2:
            pairs = pair_array(pairs_or_nodes, rows.num_nodes)
            return probabilities_of_pairs(rows, self.stumps_, pairs, height)
        nodes = node_array(pairs_or_nodes, rows.num_nodes)
        return probabilities_of_nodes(rows, self.stumps_, nodes, height)

    def explain(self, u: int, v: int) -> PairExplanation:
        """Which relations raise or lower the score of v as a positive of u, and by how much."""
        rows = self._fitted_rows()
        for node in (u, v):
            if not is_whole(node) or not 0 <= node < rows.num_nodes:
                raise UsageError(
                    f"Node {node!r} does not exist; nodes are 0 to {rows.num_nodes - 1}."
                )
        signals = []
        for relation, weights in zip(self.relations_, self.stumps_.weights, strict=True):
            pair = rows.pair_level(relation, u, v)
            signals.append(PairSignal(relation.name, *pair, weight=float(weights[pair.level])))
        score = self.stumps_.base
        for signal in signals:  # in this order, as `margin_table`, to the last bit
            score += signal.weight
        strongest = tuple(sorted(signals, key=lambda signal: -abs(signal.weight)))
        chance = float(sigmoid(np.array(score)))
        return PairExplanation(u, v, self.stumps_.base, strongest, score, chance)

    def probability(self, u: int, v: int) -> float:
        """f_u(v): how likely u and v are alike for the task."""
        return self.explain(u, v).probability

    def similarities(self, pairs: np.ndarray) -> np.ndarray:
        """s_r(u, v) of pairs [2, n], float32 [n, R] in the order of `relations_`.

        With a cap, on large graphs PageRank and graph distance count as 0 beyond the best of a row.
        """
        rows = self._fitted_rows()
        return pair_similarities(rows, pairs, self._height(rows))


def _are_folds(given: object) -> bool:
    return isinstance(given, Sequence) and all(isinstance(each, Fold) for each in given)


def tiles_are_tall(device: torch.device) -> bool:
    """Whether the rows of one fold would leave half of a tile of the device empty."""
    return device.type != "cpu"


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
    """The sampler, fitted from what `counts_to_arrays` gave; older files have no groups."""
    by_group = None
    if "group_codes" in arrays:
        by_group = PatternCounts(arrays["group_codes"], arrays["group_counts"])
    return sampler.restore(view, PatternCounts(arrays["codes"], arrays["counts"]), by_group)
