r"""Several heads that answer together for nodes.

.. math:: p(c \mid u) = \sum_m w_m \, p_m(c \mid u), \qquad w_m \ge 0, \; \sum_m w_m = 1

Each head reads some blocks of the embedding's columns: those of the encoders that were trained with
one strategy of positives, or the attributes smoothed 0, 1 or 2 times. Hidden labels choose heads,
blocks and weights (`xtcl.tasks.hidden_labels`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from xtcl.config import EnsembleConfig
from xtcl.errors import DataError
from xtcl.nn.ensemble import HOPS
from xtcl.tasks.logistic import LogisticHead

Blocks = Mapping[str, tuple[tuple[int, int], ...]]
"""The ranges of columns of each block, by name."""

ATTRIBUTES = tuple(f"attributes-{hops}" for hops in HOPS)
"""The blocks of the attributes, smoothed 0, 1 and 2 times."""


def column_blocks(ensemble: EnsembleConfig, widths: Sequence[int], num_attributes: int) -> Blocks:
    """The blocks of an embedding whose encoders have the given widths."""
    blocks: dict[str, tuple[tuple[int, int], ...]] = {}
    end = 0
    for encoder, width in zip(ensemble.encoders, widths, strict=True):
        start, end = end, end + width
        name = encoder.positives or "learned"
        blocks[name] = (*blocks.get(name, ()), (start, end))
    for name in ATTRIBUTES if ensemble.attributes else ():
        start, end = end, end + num_attributes
        blocks[name] = ((start, end),)
    return blocks


def columns_of(embedding: Tensor, ranges: Sequence[tuple[int, int]]) -> Tensor:
    """The columns of an embedding that lie in the ranges."""
    if len(ranges) == 1:
        ((start, end),) = ranges
        return embedding[:, start:end]
    return torch.cat([embedding[:, start:end] for start, end in ranges], dim=1)


class Member(NamedTuple):
    """One head of a blend: what it reads, and what hidden labels said of it."""

    name: str
    blocks: tuple[str, ...]
    weight: float
    C: float
    inverse_temperature: float
    log_loss: float
    """Mean over the hidden labels."""
    accuracy: float


@dataclass(frozen=True)
class Blend:
    """The choice: every candidate in order of preference, with its weight, and how it was made."""

    members: tuple[Member, ...]
    num_hidden: int
    """Labels that were hidden in turn; 0 where none could be."""

    @property
    def chosen(self) -> tuple[Member, ...]:
        """The candidates with a weight, the largest first."""
        kept = [member for member in self.members if member.weight > 0]
        return tuple(sorted(kept, key=lambda member: -member.weight))

    def sentences(self) -> list[str]:
        """What was chosen, by how much, on how many labels."""
        chosen = self.chosen
        if not self.num_hidden:
            return [f"No label could be hidden: {chosen[0].name} answers by default."]
        shares = ", ".join(f"{each.name} {each.weight:.0%}" for each in chosen)
        lines = [f"Chosen by {self.num_hidden} hidden labels: {shares}."]
        ranked = sorted(self.members, key=lambda member: member.log_loss)
        lines.append(
            "Log loss and accuracy on them: "
            + "; ".join(f"{m.name} {m.log_loss:.3f}, {100 * m.accuracy:.1f} %" for m in ranked)
            + "."
        )
        if all(set(member.blocks) <= set(ATTRIBUTES) for member in chosen):
            lines.append("What was learned by contrast counts for nothing here.")
        return lines

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Blend:
        """The blend whose `dataclasses.asdict` went through JSON."""
        members = tuple(Member(*each)._replace(blocks=tuple(each[1])) for each in stored["members"])
        return cls(members, stored["num_hidden"])


@dataclass(frozen=True)
class BlendedHead:
    """Fitted heads with their weights; `predict_proba` is their weighted mean."""

    weights: NDArray[np.float64]
    heads: tuple[LogisticHead, ...]
    ranges: tuple[tuple[tuple[int, int], ...], ...]
    """The columns of the embedding that each head reads."""
    blend: Blend | None = field(default=None, compare=False)

    def calibrated(self) -> BlendedHead:
        """The same head: its parts are calibrated."""
        return self

    def predict_proba(
        self, embedding: Tensor | np.ndarray, num_classes: int
    ) -> NDArray[np.float64]:
        """Probabilities [n, num_classes]."""
        rows = torch.as_tensor(embedding)
        answer = np.zeros((len(rows), num_classes))
        for weight, head, ranges in zip(self.weights, self.heads, self.ranges, strict=True):
            answer += weight * head.predict_proba(columns_of(rows, ranges), num_classes)
        return answer

    def to_tensors(self) -> dict[str, NDArray[Any]]:
        """Everything as arrays, for a safetensors file."""
        stored: dict[str, NDArray[Any]] = {"blend.weights": self.weights}
        for number, (head, ranges) in enumerate(zip(self.heads, self.ranges, strict=True)):
            stored[f"{number}.ranges"] = np.array(ranges, dtype=np.int64)
            stored |= {f"{number}.{name}": each for name, each in head.to_tensors().items()}
        return stored

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, NDArray[Any]]) -> BlendedHead:
        """The head that `to_tensors` wrote."""
        weights = tensors["blend.weights"]
        if weights.ndim != 1 or not (weights > 0).all() or not np.isclose(weights.sum(), 1):
            raise DataError(
                "The tensor 'blend.weights' of the saved head holds no positive weights that sum "
                "to 1; fit and save the model again."
            )
        heads, ranges = [], []
        for number in range(len(weights)):
            own = {
                name.removeprefix(f"{number}."): each
                for name, each in tensors.items()
                if name.startswith(f"{number}.")
            }
            try:
                columns = own.pop("ranges")
                heads.append(LogisticHead.from_tensors(own))
            except KeyError as missing:
                raise DataError(
                    f"The saved blend of heads lacks {missing} of head {number}; fit and save the "
                    "model again."
                ) from missing
            width = len(heads[-1].mean_)
            if (
                columns.ndim != 2
                or columns.shape[1:] != (2,)
                or (columns < 0).any()
                or (columns[:, 1] - columns[:, 0]).sum() != width
            ):
                raise DataError(
                    f"The tensor '{number}.ranges' of the saved head does not name the {width} "
                    "columns that it reads; fit and save the model again."
                )
            ranges.append(tuple((int(start), int(end)) for start, end in columns))
        return cls(weights, tuple(heads), tuple(ranges))

    def with_choice(self, blend: Blend) -> BlendedHead:
        """The same with the account of the choice."""
        return replace(self, blend=blend)
