r"""Several heads that answer together for nodes.

.. math:: p(c \mid u) = \sum_m w_m \, p_m(c \mid u), \qquad w_m \ge 0, \; \sum_m w_m = 1

Each head reads some blocks of the embedding's columns: those of the encoders that were trained with
one strategy of positives, those of the encoders over likely links, or the attributes smoothed 0, 1
or 2 times. Hidden labels choose the weights (`xtcl.tasks.hidden_labels`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from xtcl.config import EnsembleConfig
from xtcl.errors import DataError
from xtcl.graph.validation import Attributes
from xtcl.nn.ensemble import HOPS
from xtcl.tasks.logistic import LogisticHead
from xtcl.tasks.metrics import METRIC_TITLES
from xtcl.tasks.trees import BoostedTrees, attribute_directions, fit_trees, tree_columns
from xtcl.training.trainer import seeded

Ranges = tuple[tuple[int, int], ...]
"""Columns of an embedding, as first and one past the last."""

Blocks = Mapping[str, Ranges]
"""The columns of each block, by name."""

OfRows = Callable[[slice], NDArray[np.float64]]
"""Class probabilities of a slice of the nodes."""

NUM_DIRECTIONS = 32
"""Directions of an embedding that trees read: splits along thousands of columns find noise."""

ATTRIBUTE_BLOCKS = tuple(f"attributes-{hops}" for hops in HOPS)
"""The blocks of the attributes, smoothed 0, 1 and 2 times."""

LIKELY = "likely"
"""The block of the encoders that pass messages over likely links."""


LEARNED = "learned-label-free"
"""The strategy of the sampler's positives where hidden labels choose."""


def column_blocks(ensemble: EnsembleConfig, widths: Sequence[int], num_attributes: int) -> Blocks:
    """The blocks of an embedding whose encoders have the given widths."""
    blocks: dict[str, Ranges] = {}
    end = 0
    for encoder, width in zip(ensemble.encoders, widths, strict=True):
        start, end = end, end + width
        name = LIKELY if encoder.messages == LIKELY else encoder.positives or "learned"
        blocks[name] = (*blocks.get(name, ()), (start, end))
    for name in ATTRIBUTE_BLOCKS if ensemble.attributes else ():
        start, end = end, end + num_attributes
        blocks[name] = ((start, end),)
    return blocks


def columns_of(embedding: Tensor, ranges: Ranges) -> Tensor:
    """The columns of an embedding that lie in the ranges."""
    last = max((end for _, end in ranges), default=0)
    if last > embedding.shape[1]:
        raise DataError(
            f"A saved head reads column {last} of an embedding that has {embedding.shape[1]}; fit "
            "and save the model again."
        )
    if len(ranges) == 1:
        ((start, end),) = ranges
        return embedding[:, start:end]
    return torch.cat([embedding[:, start:end] for start, end in ranges], dim=1)


class BlendMember(NamedTuple):
    """One head of a blend: what it is and reads, and what hidden labels said of it."""

    name: str
    kind: str
    """One of `xtcl.config.NODE_HEADS`."""
    blocks: tuple[str, ...]
    """Of the embedding; trees read directions of them, beside columns of their own."""
    weight: float
    C: float
    """That of a logistic head; 1 for trees, which have none."""
    inverse_temperature: float
    log_loss: float
    """Mean over the hidden labels."""
    accuracy: float

    @property
    def encoders(self) -> tuple[str, ...]:
        """The blocks that were trained by contrast."""
        return tuple(name for name in self.blocks if name not in ATTRIBUTE_BLOCKS)


@dataclass(frozen=True)
class Blend:
    """The choice: every candidate with its weight, in the order of `candidates`."""

    members: tuple[BlendMember, ...]
    num_hidden: int
    """Labels that were hidden in turn."""
    log_loss: float
    """Of all candidates together, mean over the hidden labels."""
    accuracy: float
    metric: str = "accuracy"
    """What the weights are for: one of `xtcl.tasks.metrics.METRICS` for nodes."""
    class_factors: tuple[float, ...] = ()
    """The class with the largest product of probability and factor is predicted; empty: all 1."""

    @property
    def chosen(self) -> tuple[BlendMember, ...]:
        """The candidates with a weight, the largest first."""
        kept = [member for member in self.members if member.weight > 0]
        return tuple(sorted(kept, key=lambda member: -member.weight))

    def sentences(self) -> list[str]:
        """What was chosen, by how much, on how many labels."""
        chosen = self.chosen
        has_factors = len(set(self.class_factors)) > 1
        shares = "; ".join(f"{each.name} {100 * each.weight:.0f} %" for each in chosen)
        ranked = sorted(self.members, key=lambda member: -member.accuracy)
        alone = "; ".join(f"{each.name} {100 * each.accuracy:.1f}" for each in ranked)
        together = f"{100 * self.accuracy:.1f}{' with class factors' if has_factors else ''}"
        lines = [
            f"{self.num_hidden} hidden labels decided, by likelihood, what predicts: {shares}.",
            f"Percent of the hidden labels that are right: together {together}; alone: {alone}.",
        ]
        if not any(member.encoders for member in chosen):
            lines.append(
                "The embedding learned by contrast has no weight here: the attributes predict as "
                "well without it, and the weights of the relations do not explain predictions."
            )
        elif self.reads_sampler(self.members) and not self.reads_sampler(chosen):
            lines.append(
                "The encoders that learned from the sampler's positives have no weight here."
            )
        if has_factors:
            title = METRIC_TITLES.get(self.metric, self.metric)
            factors = ", ".join(f"{factor:.2f}" for factor in self.class_factors)
            lines.append(
                f"For {title}, the class with the largest probability times its factor is "
                f"predicted; factors in the order of the classes: {factors}."
            )
        return lines

    @staticmethod
    def reads_sampler(members: Sequence[BlendMember], strategy: str = LEARNED) -> bool:
        """Whether some of the members read encoders that learned from the sampler's positives.

        `strategy` is that of the fit.
        """
        learned = {LIKELY, "learned", LEARNED, strategy}
        return any(learned & set(member.blocks) for member in members)

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Blend:
        """The blend whose `dataclasses.asdict` went through JSON."""
        members = tuple(
            BlendMember(*each)._replace(blocks=tuple(each[2])) for each in stored["members"]
        )
        factors = tuple(float(factor) for factor in stored["class_factors"])
        return cls(**{**stored, "members": members, "class_factors": factors})


class HeadRows(NamedTuple):
    """What heads read of all nodes of a graph: embedding, attributes, links and training labels."""

    embedding: Tensor
    attributes: Attributes
    adjacency: sp.csr_array
    labels: NDArray[np.int64]
    """Codes, -1 where there is none."""


@dataclass(frozen=True)
class LinearMember:
    """A logistic head on some columns of the embedding."""

    kind: ClassVar[str] = "logistic"

    ranges: Ranges
    head: LogisticHead

    def probabilities(self, rows: HeadRows, num_classes: int) -> OfRows:
        """The function that computes the class probabilities of a slice of the nodes."""
        return lambda part: self.head.predict_proba(
            columns_of(rows.embedding[part], self.ranges), num_classes
        )

    def to_tensors(self) -> dict[str, NDArray[Any]]:
        """Everything as arrays."""
        return {"ranges": np.array(self.ranges, dtype=np.int64), **self.head.to_tensors()}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, NDArray[Any]]) -> LinearMember:
        """The member that `to_tensors` wrote."""
        head = LogisticHead.from_tensors(tensors)
        mean, intercept = head.mean_, head.intercept_
        fits = mean.ndim == 1 and head.coef_.shape == (len(head.classes_), len(mean))
        fits = fits and intercept.shape == head.classes_.shape
        if not fits or not all(np.isfinite(part).all() for part in (head.coef_, intercept, mean)):
            raise DataError(
                "The tensors 'coef', 'intercept', 'mean' and 'classes' of a saved logistic head do "
                "not fit each other, or are not finite; fit and save the model again."
            )
        return cls(_read_ranges(tensors, len(mean)), head)


@dataclass(frozen=True)
class TreesMember:
    r"""Boosted trees on `tree_columns` and on the main directions of some columns of the embedding.

    The directions are the leading principal ones, (z_u - mean) D. With many attributes the means of
    the neighbours' are of main directions, too.
    """

    kind: ClassVar[str] = "trees"

    ranges: Ranges
    mean: NDArray[np.float32]
    directions: NDArray[np.float32]
    """D, [columns, number of directions]"""
    attribute_directions: NDArray[np.float32]
    """Those of `xtcl.tasks.trees.attribute_directions`."""
    trees: BoostedTrees

    @classmethod
    def fit(cls, rows: HeadRows, ranges: Ranges, num_classes: int, *, seed: int) -> TreesMember:
        """Fit to the nodes that have a label; not calibrated."""
        columns = columns_of(rows.embedding, ranges)
        mean = columns.mean(dim=0)
        with seeded(seed, columns.device):
            number = min(NUM_DIRECTIONS, *columns.shape)
            _, _, directions = torch.svd_lowrank(columns - mean, q=number, niter=4)
        known = np.flatnonzero(rows.labels >= 0)
        of_attributes = attribute_directions(rows.attributes, seed)
        projected = (columns - mean) @ directions
        read = _columns_with(rows, of_attributes, projected, num_classes)[known]
        trees = fit_trees(read, rows.labels[known], seed=seed, folds=0)
        return cls(ranges, mean.cpu().numpy(), directions.cpu().numpy(), of_attributes, trees)

    def columns(self, rows: HeadRows, num_classes: int) -> sp.csr_array:
        """What the trees read of every node."""
        mean, directions = (
            torch.from_numpy(part).to(rows.embedding) for part in (self.mean, self.directions)
        )
        projected = (columns_of(rows.embedding, self.ranges) - mean) @ directions
        return _columns_with(rows, self.attribute_directions, projected, num_classes)

    def probabilities(self, rows: HeadRows, num_classes: int) -> OfRows:
        """The function that computes the class probabilities of a slice of the nodes."""
        columns = self.columns(rows, num_classes)
        return lambda part: self.trees.predict_proba(columns[part], num_classes)

    def scores(self, rows: HeadRows, nodes: NDArray[np.int64], num_classes: int) -> Tensor:
        """The class scores [n, classes with a label] of some nodes."""
        return torch.from_numpy(
            self.trees.decision_function(self.columns(rows, num_classes)[nodes])
        )

    def calibrated(self, inverse_temperature: float) -> TreesMember:
        """The same with its scores multiplied by that factor."""
        trees = replace(self.trees, inverse_temperature_=inverse_temperature)
        return replace(self, trees=trees.calibrated())

    def to_tensors(self) -> dict[str, NDArray[Any]]:
        """Everything as arrays."""
        names = ("mean", "directions", "attribute_directions")
        own = {name: getattr(self, name) for name in names}
        trees = {f"trees.{name}": each for name, each in self.trees.to_tensors().items()}
        return {"ranges": np.array(self.ranges, dtype=np.int64), **own, **trees}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, NDArray[Any]]) -> TreesMember:
        """The member that `to_tensors` wrote."""
        mean, directions = (_stored(name, tensors) for name in ("mean", "directions"))
        finite = np.isfinite(mean).all() and np.isfinite(directions).all()
        if mean.ndim != 1 or directions.ndim != 2 or len(directions) != len(mean) or not finite:
            raise DataError(
                "The tensors 'mean' and 'directions' of the saved trees do not fit each other; fit "
                "and save the model again."
            )
        of_attributes = _stored("attribute_directions", tensors)
        if of_attributes.ndim != 2 or not np.isfinite(of_attributes).all():
            raise DataError(
                "The tensor 'attribute_directions' of the saved trees is no matrix of finite "
                "numbers; fit and save the model again."
            )
        trees = BoostedTrees.from_tensors(_below("trees", tensors))
        return cls(_read_ranges(tensors, len(mean)), mean, directions, of_attributes, trees)


def _columns_with(
    rows: HeadRows, directions: NDArray[np.float32], projected: Tensor, num_classes: int
) -> sp.csr_array:
    """What trees read of every node."""
    if len(directions) != rows.attributes.shape[1]:
        raise DataError(
            f"The saved trees read {len(directions)} attributes, but the nodes have "
            f"{rows.attributes.shape[1]}; fit and save the model again."
        )
    extra = np.asarray(projected.cpu().numpy())
    return tree_columns(
        rows.attributes,
        rows.adjacency,
        rows.labels,
        num_classes,
        directions=directions,
        extra=extra,
    )


_MEMBERS: dict[str, type[LinearMember | TreesMember]] = {
    each.kind: each for each in (LinearMember, TreesMember)
}


@dataclass(frozen=True)
class BlendedHead:
    """Fitted heads with their weights; its probabilities are their weighted mean."""

    weights: NDArray[np.float64]
    members: tuple[LinearMember | TreesMember, ...]
    blend: Blend

    def probabilities(self, rows: HeadRows, num_classes: int) -> OfRows:
        """The function that computes the class probabilities of a slice of the nodes."""
        each = [member.probabilities(rows, num_classes) for member in self.members]

        def of_rows(part: slice) -> NDArray[np.float64]:
            found = zip(self.weights, (compute(part) for compute in each), strict=True)
            return np.asarray(sum(weight * own for weight, own in found))

        return of_rows

    def to_tensors(self) -> dict[str, NDArray[Any]]:
        """Everything as arrays, for a safetensors file."""
        account = json.dumps(asdict(self.blend)).encode()
        stored: dict[str, NDArray[Any]] = {
            "blend.weights": self.weights,
            "blend.account": np.frombuffer(account, dtype=np.uint8),
        }
        for number, member in enumerate(self.members):
            own = {f"{member.kind}.{name}": each for name, each in member.to_tensors().items()}
            stored |= {f"{number}.{name}": each for name, each in own.items()}
        return stored

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, NDArray[Any]]) -> BlendedHead:
        """The head that `to_tensors` wrote."""
        weights = _stored("blend.weights", tensors)
        if weights.ndim != 1 or not (weights > 0).all() or not np.isclose(weights.sum(), 1):
            raise DataError(
                "The tensor 'blend.weights' of the saved head holds no positive weights that sum "
                "to 1; fit and save the model again."
            )
        members: list[LinearMember | TreesMember] = []
        for number in range(len(weights)):
            own = _below(str(number), tensors)
            kind = next((name for name in _MEMBERS if any(k.startswith(name) for k in own)), None)
            if kind is None:
                raise DataError(
                    f"The saved blend lacks head {number} of {len(weights)}; fit and save the "
                    "model again."
                )
            members.append(_MEMBERS[kind].from_tensors(_below(kind, own)))
        return cls(weights, tuple(members), _read_account(tensors, len(members)))


def class_probabilities_of(
    head: LogisticHead | BlendedHead, rows: HeadRows, num_classes: int
) -> OfRows:
    """The function that computes the calibrated class probabilities of a slice of the nodes."""
    if isinstance(head, BlendedHead):
        return head.probabilities(rows, num_classes)
    calibrated = head.calibrated()
    return lambda part: calibrated.predict_proba(rows.embedding[part], num_classes)


def read_node_head(tensors: Mapping[str, NDArray[Any]]) -> LogisticHead | BlendedHead:
    """The saved head of a model for nodes."""
    kind = BlendedHead if "blend.weights" in tensors else LogisticHead
    return kind.from_tensors(tensors)


def _below(name: str, tensors: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """The tensors whose names begin with `name` and a dot, under what follows it."""
    return {
        key.removeprefix(f"{name}."): each
        for key, each in tensors.items()
        if key.startswith(f"{name}.")
    }


def _stored(name: str, tensors: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
    """The tensor of that name, which must be there."""
    if name not in tensors:
        raise DataError(f"The saved head lacks the tensor '{name}'; fit and save the model again.")
    return tensors[name]


def _read_account(tensors: Mapping[str, NDArray[Any]], num_members: int) -> Blend:
    """The choice, which must be that of `num_members` heads."""
    text = _stored("blend.account", tensors).tobytes()
    try:
        blend = Blend.from_dict(json.loads(text))
        num_chosen = len(blend.chosen)
    except (LookupError, RecursionError, TypeError, ValueError) as broken:
        raise DataError(
            f"The tensor 'blend.account' of the saved head cannot be read ({broken}); fit and save "
            "the model again."
        ) from broken
    if not all(0 < factor < np.inf for factor in blend.class_factors):
        raise DataError(
            "The tensor 'blend.account' of the saved head holds class factors that are not "
            "positive numbers; fit and save the model again."
        )
    if num_chosen != num_members:
        raise DataError(
            f"The tensor 'blend.account' of the saved head names {num_chosen} heads, but "
            f"{num_members} are saved; fit and save the model again."
        )
    return blend


def _read_ranges(tensors: Mapping[str, NDArray[Any]], width: int) -> Ranges:
    """Ranges of columns, which must be `width` columns together."""
    stored = _stored("ranges", tensors)
    fits = stored.ndim == 2 and stored.shape[1] == 2 and stored.dtype == np.int64
    fits = fits and bool(((stored[:, 0] >= 0) & (stored[:, 0] < stored[:, 1])).all())
    if not fits or int((stored[:, 1] - stored[:, 0]).sum()) != width:
        raise DataError(
            f"The tensor 'ranges' of a saved head does not name the {width} columns that it "
            "reads; fit and save the model again."
        )
    return tuple((int(start), int(end)) for start, end in stored)
