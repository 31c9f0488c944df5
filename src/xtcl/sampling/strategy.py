"""What a strategy of positives is: what it reads, and how it is called."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
import torch
from sklearn.base import BaseEstimator
from torch import Tensor

from xtcl.config import FitConfig
from xtcl.errors import DataError, UsageError, check_is_fitted, check_number, check_whole
from xtcl.graph.validation import to_array
from xtcl.relations.rows import NO_NODE
from xtcl.relations.sparse import within_hops
from xtcl.relations.view import TrainingView
from xtcl.sampling.inputs import view_with_labels
from xtcl.sampling.partial import TensorFiles
from xtcl.sampling.patterns import PatternCounts
from xtcl.sampling.positives import PairFilter, PositiveLists, PositiveTable
from xtcl.sampling.xgsampler import XGSampler


@dataclass(frozen=True)
class PositiveSource:
    """What a strategy may read: the fitted sampler, whose `view_` are the training data."""

    sampler: XGSampler
    seed: int = 0
    min_probability: float = 0.0
    """The least f_u(v) of a learned positive; the best of every node needs none."""
    hops: int | None = None
    """Positives are at most so many links away (Section 3.3); None: anywhere."""
    exclude: sp.csr_array | None = None
    """Pairs that are no positives, a sparse 0/1 matrix [V, V]."""
    progress: Callable[[int], None] = lambda done: None
    """Called with the number of nodes that are done."""
    checkpoints: TensorFiles | None = None
    """Where work is kept that an interrupt would lose."""

    @property
    def num_nodes(self) -> int:
        """V."""
        return self.sampler.view_.num_nodes

    @property
    def labels(self) -> np.ndarray:
        """Label codes of the training nodes, -1 for all others; refuses data without any."""
        labels = self.sampler.view_.labels
        if not (labels >= 0).any():
            raise DataError(
                "The training data has no labels, and these positives are drawn by label: give "
                "labels, or take positives='uniform'."
            )
        return labels

    def limited(self, **limits: Any) -> PositiveSource:
        """The same with the limits that are not None."""
        return replace(self, **_given_limits(limits))

    def filter(self) -> PairFilter:
        """Which pairs may be positives, by `exclude` and `hops`."""
        view = self.sampler.view_
        within = None if self.hops is None else within_hops(view.adjacency, self.hops)
        return PairFilter.from_matrices(self.exclude, within, view.device)


class PositiveStrategy(BaseEstimator, ABC):  # type: ignore[misc]
    """How positives are chosen. A subclass has `name` and `table`, and parameters as it likes."""

    name: ClassVar[str]
    learns: ClassVar[bool] = False
    """Whether the sampler's weights decide. Outside a fit the sampler is fitted only if True."""
    reads_labels: bool = True
    """Whether the positives depend on labels. If not, they are the same whatever is hidden."""

    def __init_subclass__(cls, **options: Any) -> None:
        """A subclass without a `name` has that of the class."""
        super().__init_subclass__(**options)
        if not hasattr(cls, "name"):
            cls.name = cls.__name__

    @abstractmethod
    def table(self, source: PositiveSource, number: int) -> PositiveTable:
        """At most `number` positives of every node."""

    def configure(self, config: FitConfig) -> FitConfig:
        """The configuration of a fit with this strategy, and with the limits that it has."""
        limits = {name: getattr(self, name, None) for name in ("min_probability", "hops")}
        config = config.with_strategy(_checked_name(self), learns=self.learns)
        return replace(config, **_given_limits(limits))

    def fit(
        self,
        graph: Any = None,
        labels: Any = None,
        *,
        sampler: XGSampler | None = None,
        number: int = 20,
        seed: int = 0,
    ) -> Self:
        """Find `number` positives of every node: `positives_`, int64 [V, number].

        `graph` and `labels` are as for `XGSampler.fit`: without `labels` those of the graph count.
        A fitted `sampler` takes their place; without one, a new one is fitted where the strategy
        `learns`. `seed` decides what is drawn.
        """
        number, seed = check_whole("number", number, 1), check_whole("seed", seed, 0)
        self.configure(FitConfig())  # refuses parameters that cannot be used, before any work
        if sampler is None:
            view = view_with_labels(graph, labels)
            fitted = XGSampler(random_state=seed).fit(view) if self.learns else None
            sampler = fitted or unlearned_sampler(view)
        elif not isinstance(sampler, XGSampler):
            raise UsageError(f"sampler={sampler!r} must be a fitted XGSampler, or left out.")
        check_is_fitted(sampler, "stumps_", "fit(graph, labels)")
        self.sampler_ = sampler
        self.positives_ = checked_table(self, PositiveSource(sampler, seed), number).nodes
        return self

    def batches(
        self, size: int = 1024, *, per_anchor: int | None = 4, seed: int = 0
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """One epoch of anchors u [n] and positives v [n, per_anchor], in random order.

        Every node that has a positive is an anchor once, in batches of `size`. Positives are drawn
        with replacement; with `per_anchor=None` all are taken, filled up with -1.
        `contrastive_loss(z, v, negatives, anchors=u)` takes them as they are.
        """
        check_is_fitted(self, "positives_", "fit(graph)")
        size = check_whole("size", size, 1)
        if per_anchor is not None:
            per_anchor = check_whole("per_anchor", per_anchor, 1)
        lists = PositiveLists.from_table(self.positives_, per_anchor)
        generator = torch.Generator().manual_seed(check_whole("seed", seed, 0))
        anchors = torch.from_numpy(np.flatnonzero((self.positives_ != NO_NODE).any(axis=1)))
        order = torch.randperm(len(anchors), generator=generator)
        return ((u, lists.draw(u, generator)) for u in torch.split(anchors[order], size))


def checked_table(strategy: PositiveStrategy, source: PositiveSource, number: int) -> PositiveTable:
    """The table of the strategy; one that training cannot use is refused."""
    name = _checked_name(strategy)
    table = strategy.table(source, number)
    if not isinstance(table, PositiveTable):
        raise UsageError(
            f"The strategy '{name}' returned a {type(table).__name__}: return "
            "PositiveTable(nodes), where nodes has one row of node numbers for each node."
        )
    nodes, num_nodes = (
        to_array(table.nodes, f"Positives of the strategy '{name}'"),
        source.num_nodes,
    )
    fits = nodes.ndim == 2 and len(nodes) == num_nodes and nodes.dtype.kind in "iu"
    if not fits or (nodes < NO_NODE).any() or (nodes >= num_nodes).any():
        raise UsageError(
            f"The strategy '{name}' returned an array of shape {list(nodes.shape)} and "
            f"type {nodes.dtype} as positives of {num_nodes} nodes: return one row of "
            "node numbers for each node, with -1 in empty places."
        )
    return table._replace(nodes=nodes.astype(np.int64, copy=False))


def _checked_name(strategy: PositiveStrategy) -> str:
    name = strategy.name
    if not isinstance(name, str) or not name:
        raise UsageError(
            f"The name of the strategy {type(strategy).__name__} is {name!r}: give it a text."
        )
    return name


def _given_limits(limits: Mapping[str, Any]) -> dict[str, Any]:
    """The limits that are not None, checked."""
    given = {name: limit for name, limit in limits.items() if limit is not None}
    if "min_probability" in given:
        check_number("min_probability", given["min_probability"], 0, 1)
    if "hops" in given:
        check_whole("hops", given["hops"], 1)
    return given


def unlearned_sampler(view: TrainingView, sampler: XGSampler | None = None) -> XGSampler:
    """A sampler that has seen no pair: it prefers no relation to another."""
    empty = PatternCounts(np.zeros(0, np.int64), np.zeros((0, 2), int))
    return (sampler or XGSampler()).restore(view, empty)
