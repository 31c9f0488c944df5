"""Strategies: which nodes training pulls a node towards.

A strategy fills a table [V, B] with positives of every node. `XTCL(positives=...)` takes one, by
name or as an object. Outside of XTCL, `fit` makes the table for a graph, and `batches` gives pairs
(u, v) for a training loop of your own. A strategy of your own has one method, `table`.

The paper's five losses are Equation 1 with these strategies:

=============  ==================  =======================================
strategy       loss of the paper   positives of a node
=============  ==================  =======================================
`learned`      XTCL (Equation 3)   the best by XGSampler
`uniform`      SSCL (Definition 1) above for a relation, each alike likely
`same-label`   SCL (Definition 2)  training nodes of its class
`all-labels`   Ceiling (6)         all nodes of its class, test nodes, too
`naive`        Naive TCL (7)       same label, without a label uniform
=============  ==================  =======================================

`learned-label-free` and `uniform-all` are variants: the sampler of the relations that read no
label, and uniform positives of all relations.

Citation: Lin and Neville, "Improving Node Representation by Boosting Task-Aware Contrastive Loss",
2024, Sections 2, 3 and 4.2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from numbers import Real
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from xtcl.config import FitConfig
from xtcl.errors import DataError, UsageError, known_names
from xtcl.graph.validation import to_array
from xtcl.relations.rows import NO_NODE, all_nodes, make_rows
from xtcl.relations.sparse import SparseRows
from xtcl.relations.view import LABELS
from xtcl.sampling.likely_graph import label_free_sampler
from xtcl.sampling.positives import PositiveLists, Positives, PositiveTable
from xtcl.sampling.strategy import (
    PositiveSource,
    PositiveStrategy,
    checked_table,
    unlearned_sampler,
)
from xtcl.sampling.xgsampler import XGSampler

__all__ = [
    "STRATEGIES",
    "AllLabelPositives",
    "LearnedPositives",
    "MixedPositives",
    "NaivePositives",
    "PositiveSource",
    "PositiveStrategy",
    "PositiveTable",
    "SameLabelPositives",
    "UniformPositives",
    "checked_table",
    "likely_positives",
    "make_strategy",
    "unlearned_sampler",
]


class LearnedPositives(PositiveStrategy):
    r"""XTCL's own: the best by what XGSampler has learned.

    .. math:: p_1, \dots, p_B = \operatorname{top}_B \{f_u(v) \mid v \in V \setminus u\}

    Equation 3 of the paper. With `min_probability` only those with :math:`f_u(v)` of at least so
    much, and the best of every node; with `hops` only nodes at most so many links away. None leaves
    both to the recipe of a fit; alone it means no limit. With `relations="label-free"` f is the
    sampler of the relations that read no label (`xtcl.sampling.likely_graph`). Trust is the share
    of the best candidates that reach `min_probability`. Cost: one pass over the rows of the
    relations (`xtcl.sampling.positives`).
    """

    learns: ClassVar[bool] = True

    def __init__(
        self,
        min_probability: float | None = None,
        hops: int | None = None,
        relations: str = "all",
    ) -> None:
        self.min_probability = min_probability
        self.hops = hops
        self.relations = relations

    @property
    def name(self) -> str:  # type: ignore[override]
        """`learned`, or `learned-label-free` over the relations that read no label."""
        return "learned-label-free" if self.relations == "label-free" else "learned"

    def table(self, source: PositiveSource, number: int) -> PositiveTable:
        """The candidates that are likely enough."""
        _check_relations(self.relations)
        source = source.limited(min_probability=self.min_probability, hops=self.hops)
        sampler: XGSampler | None = source.sampler
        if self.relations == "label-free":
            sampler = label_free_sampler(source.sampler)
        if sampler is None:
            raise _no_label_free("LearnedPositives(relations='all')")
        candidates = sampler.positives(
            number,
            exclude=source.exclude,
            hops=source.hops,
            progress=source.progress,
            checkpoints=source.checkpoints,
        )
        return likely_positives(candidates, source.min_probability)


class UniformPositives(PositiveStrategy):
    r"""SSCL: a relation at random, then a node that is above for it.

    .. math:: p_b \sim \mathcal U\{v \mid s_r(u, v) \ge \eta_{r,u}\}, \qquad
              r \sim \mathcal U(\mathcal R_f)

    Definition 1 of the paper, which prints :math:`>` here and :math:`\ge` for the same threshold in
    Definition 5; :math:`\ge` is taken in both. :math:`\mathcal R_f` are the relations that read no
    label, less
    those for which no node is above for u; with `relations="all"` those that read labels, too. By
    the definition each of them gives :math:`\lfloor B / |\mathcal R_f| \rfloor` of the B positives.
    That is the same on average; places that are drawn one by one need not divide evenly, and a
    relation without nodes for u leaves its places to the others. With `hops` only nodes at most so
    many links away. Cost: one pass over the rows of the relations, and O(V B) memory.
    """

    def __init__(self, relations: str = "label-free", hops: int | None = None) -> None:
        self.relations = relations
        self.hops = hops

    @property
    def name(self) -> str:  # type: ignore[override]
        """`uniform`, or `uniform-all` over all relations."""
        return "uniform-all" if self.relations == "all" else "uniform"

    @property
    def reads_labels(self) -> bool:  # type: ignore[override]
        """Only where relations that read labels are drawn from."""
        return self.relations == "all"

    def table(self, source: PositiveSource, number: int) -> PositiveTable:
        """Nodes that are above for some relation. The same for blocks of any height."""
        _check_relations(self.relations)
        sampler, allowed = source.sampler, source.limited(hops=self.hops).filter()
        chosen = [
            relation
            for relation in sampler.relations_
            if self.relations == "all" or LABELS not in relation.reads
        ]
        if not chosen:
            raise _no_label_free("UniformPositives(relations='all')")
        settings = sampler.settings_
        rows = make_rows(
            chosen,
            sampler.view_,
            settings.quantiles[-1:],
            cap=settings.cap,
            index_past=settings.index_past,
            store=sampler.opened_store,
        )
        rng = np.random.default_rng(source.seed)
        every_node, found = all_nodes(rows.num_nodes), []
        height = sampler.block_rows or rows.block_rows
        with rows.over(every_node) as passing:
            for nodes in torch.split(every_node.to(rows.device), height):
                shape = (len(nodes), len(chosen) + 1, number)
                uniform = torch.from_numpy(rng.random(shape)).to(rows.device)
                drawn = [
                    _draw(allowed.of_rows(above, nodes), uniform[:, -1])
                    for above in passing.above(nodes)
                ]
                table = _pick(torch.stack(drawn, dim=1), uniform[:, :-1])
                found.append(table.cpu().numpy())
                source.progress(len(nodes))
        return PositiveTable(np.concatenate(found))


class SameLabelPositives(PositiveStrategy):
    r"""SCL: training nodes of the same class.

    .. math:: p_b \sim \mathcal U\{v \in V_L \setminus u \mid y_v = y_u\}, \qquad u \in V_L

    Definition 2 of the paper, after Khosla and others, "Supervised Contrastive Learning", NeurIPS
    2020. Only labelled nodes :math:`V_L` are anchors, and of those only nodes whose class has
    another. Cost: O(V B).
    """

    name: ClassVar[str] = "same-label"

    def table(self, source: PositiveSource, number: int) -> PositiveTable:
        """Labelled nodes of the same class."""
        return _same_label(source, source.labels, number)


class AllLabelPositives(PositiveStrategy):
    r"""The ceiling: all nodes of the same class. It reads the labels of test nodes.

    .. math:: p_b \sim \mathcal U\{v \in V \setminus u \mid y_v = y_u\}, \qquad u \in V

    Definition 6 of the paper: what the loss could do with positives that are always right. `truth`
    holds a label code for every node, -1 where it is unknown. Training data hold no such labels, so
    they are given here. Its score is no estimate of anything: it bounds what positives can gain.
    Cost: O(V B).
    """

    name: ClassVar[str] = "all-labels"

    def __init__(self, truth: ArrayLike | Tensor | None = None) -> None:
        self.truth = truth

    def table(self, source: PositiveSource, number: int) -> PositiveTable:
        """Any nodes of the same class."""
        if self.truth is None:
            raise UsageError(
                "The ceiling needs the true labels of all nodes, which no fit is shown: give "
                "AllLabelPositives(truth=graph.labels). It sees the test labels."
            )
        truth, known = to_array(self.truth, "The true labels"), source.labels >= 0
        fits = truth.shape == source.labels.shape and truth.dtype.kind in "biuf"
        if not fits or (truth[known] != source.labels[known]).any():
            raise DataError(
                "The true labels of the ceiling contradict those of the training data: give the "
                "label codes of the graph that was split."
            )
        return _same_label(source, truth, number)


class NaivePositives(PositiveStrategy):
    r"""Naive TCL: SCL for labelled nodes, SSCL for all the others.

    .. math:: p_b \sim \begin{cases} \mathcal U\{v \in V_L \setminus u \mid y_v = y_u\}
              & u \in V_L \\ \mathcal U\{v \mid s_r(u, v) \ge \eta_{r,u}\}, \;
              r \sim \mathcal U(\mathcal R_f) & \text{else} \end{cases}

    Definition 7 of the paper. A node that is alone with its label has the positives of a node
    without one. With the same seed the positives are those of SCL and of SSCL. Cost: that of SSCL.
    """

    name: ClassVar[str] = "naive"

    def table(self, source: PositiveSource, number: int) -> PositiveTable:
        """Labelled nodes of the same class, else nodes that are above for some relation."""
        alike = SameLabelPositives().table(replace(source, progress=lambda done: None), number)
        near = UniformPositives().table(source, number)
        return PositiveTable(np.where(alike.nodes == NO_NODE, near.nodes, alike.nodes))


class MixedPositives(PositiveStrategy):
    r"""A mixture: each place belongs to one of several strategies, at random.

    .. math:: p_b \sim \mathcal U(P_k(u)), \qquad k \sim \text{shares}

    :math:`P_k(u)` are the positives of u by strategy k, all of them equally likely. One that has
    none for u leaves its places to the others. `shares` are equal by default. By name, a mixture is
    `learned+uniform`, or `0.7*learned+0.3*uniform`. Trust is the mean by shares. Cost: that of the
    strategies, and O(V B) for each.
    """

    def __init__(
        self, parts: Sequence[str | PositiveStrategy], shares: Sequence[float] | None = None
    ) -> None:
        self.parts = parts
        self.shares = shares

    @property
    def name(self) -> str:  # type: ignore[override]
        """The names of the parts, with their shares where they differ."""
        names = [part.name for part in self._strategies()]
        if self.shares is None:
            return "+".join(names)
        given = zip(self._checked_shares(), names, strict=True)
        return "+".join(f"{share:g}*{name}" for share, name in given)

    @property
    def learns(self) -> bool:  # type: ignore[override]
        """Whether one of the parts does."""
        return any(part.learns for part in self._strategies())

    def _strategies(self) -> list[PositiveStrategy]:
        parts = self.parts
        if isinstance(parts, str) or not isinstance(parts, Sequence) or len(parts) < 2:
            raise UsageError("A mixture of positives needs two strategies at least, in a list.")
        for part in parts:
            if not isinstance(part, (str, PositiveStrategy)):
                raise UsageError(
                    f"{part!r} cannot be a part of a mixture of positives: give names, such as "
                    "'uniform', and PositiveStrategy objects."
                )
        return [make_strategy(part) if isinstance(part, str) else part for part in parts]

    def _checked_shares(self) -> np.ndarray:
        if self.shares is None:
            return np.ones(len(self.parts))
        shares: Sequence[object] = self.shares if np.ndim(self.shares) == 1 else ()
        numbers = [float(each) for each in shares if isinstance(each, Real)]
        numbers = [each for each in numbers if 0 < each < np.inf]
        if not len(numbers) == len(shares) == len(self.parts):
            raise UsageError(
                f"shares={self.shares} must be one number above 0 for each of the "
                f"{len(self.parts)} strategies."
            )
        return np.array(numbers)

    def configure(self, config: FitConfig) -> FitConfig:
        """The configuration of a fit, with what the parts set."""
        for part in self._strategies():
            config = part.configure(config)
        return super().configure(config)

    def table(self, source: PositiveSource, number: int) -> PositiveTable:
        """The tables of the parts, mixed place by place."""
        shares = self._checked_shares()
        shares = shares / shares.sum()
        tables = [checked_table(part, source, number) for part in self._strategies()]
        rng = np.random.default_rng([source.seed, 2])
        shape = len(tables[0].nodes), len(tables), number
        drawn = [PositiveLists.from_table(part.nodes, None) for part in tables]
        places = rng.random((shape[0], number))
        of_each = torch.stack([_draw_from(each, torch.from_numpy(places)) for each in drawn], dim=1)
        # The highest of U^(1 / share) belongs to k with the chance share_k.
        lots = rng.random(shape) ** (1 / shares[:, None])
        trust = float(shares @ [part.trust for part in tables])
        return PositiveTable(_pick(of_each, torch.from_numpy(lots)).numpy(), trust)


def likely_positives(candidates: Positives, min_probability: float) -> PositiveTable:
    """The candidates that are likely enough, trusted by the share of these among all.

    It is at least 1 / B, so that the encoders keep some weight.
    """
    likely = (candidates.probabilities >= min_probability)[candidates.filled]
    share = float(likely.mean()) if len(likely) else 0.0
    nodes = candidates.likely(min_probability).nodes
    return PositiveTable(nodes, max(share, 1 / nodes.shape[1]))


STRATEGIES: dict[str, Callable[[], PositiveStrategy]] = {
    "learned": LearnedPositives,
    "learned-label-free": lambda: LearnedPositives(relations="label-free"),
    "uniform": UniformPositives,
    "uniform-all": lambda: UniformPositives("all"),
    "same-label": SameLabelPositives,
    "naive": NaivePositives,
    "all-labels": AllLabelPositives,
}


def make_strategy(name: str) -> PositiveStrategy:
    """The strategy called `name`; names joined by + are a mixture."""
    if "+" in name:
        weighted = [part.rpartition("*") for part in name.replace(" ", "").split("+")]
        names = [part for _, _, part in weighted]
        if not any(share for share, _, _ in weighted):
            return MixedPositives(names)
        try:
            return MixedPositives(names, [float(share) for share, _, _ in weighted])
        except ValueError as broken:
            raise UsageError(
                f"The shares in positives='{name}' cannot be read: write 0.7*learned+0.3*uniform."
            ) from broken
    if name not in STRATEGIES:
        raise UsageError(f"There is no strategy '{name}'.{known_names(name, STRATEGIES)}")
    return STRATEGIES[name]()


def _check_relations(relations: str) -> None:
    if relations not in ("label-free", "all"):
        raise UsageError(f"relations='{relations}' must be 'label-free' or 'all'.")


def _no_label_free(other: str) -> DataError:
    return DataError(
        "None of the relations can be computed without labels, and so no positive can be found by "
        f"them: choose others, or {other}."
    )


def _same_label(source: PositiveSource, labels: np.ndarray, number: int) -> PositiveTable:
    drawn = _of_class(labels, number, source.seed)
    source.progress(len(drawn))
    return PositiveTable(source.filter().of_table(drawn))


def _of_class(labels: np.ndarray, number: int, seed: int) -> np.ndarray:
    """A table [V, number] of random other nodes with the same label.

    -1 for a node without a label, or alone with it.
    """
    rng = np.random.default_rng(seed)
    table = np.full((len(labels), number), NO_NODE, dtype=np.int64)
    for label in np.unique(labels[labels >= 0]):
        members = np.flatnonzero(labels == label)
        if len(members) > 1:
            place = rng.integers(len(members) - 1, size=(len(members), number))
            place += place >= np.arange(len(members))[:, None]  # steps over the node itself
            table[members] = members[place]
    return table


def _draw(rows: SparseRows, uniform: Tensor) -> Tensor:
    """For each number [b, B] in [0, 1) one of the nodes that its row lists; -1 without any."""
    return _drawn(rows.start, rows.node, uniform)


def _draw_from(lists: PositiveLists, uniform: Tensor) -> Tensor:
    return _drawn(lists.start, lists.members, uniform)


def _drawn(start: Tensor, nodes: Tensor, uniform: Tensor) -> Tensor:
    length = start.diff()[:, None]
    place = (uniform * length).long()
    if not len(nodes):
        return torch.full_like(place, NO_NODE)
    entry = (start[:-1, None] + place).clamp_max(len(nodes) - 1)
    return nodes[entry].masked_fill(length == 0, NO_NODE)


def _pick(drawn: Tensor, lots: Tensor) -> Tensor:
    """Of what R drew [b, R, B], that of the highest lot among those that drew a node."""
    winner = lots.masked_fill(drawn == NO_NODE, -1.0).argmax(dim=1, keepdim=True)
    return drawn.gather(1, winner)[:, 0]
