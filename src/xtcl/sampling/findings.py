"""What a fitted sampler tells: about each relation, and about one pair."""

from __future__ import annotations

from dataclasses import asdict, dataclass


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
