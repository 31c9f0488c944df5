"""What explains the probability of a pair."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PairSignal:
    """One relation's contribution to the score of a pair."""

    relation: str
    similarity: float
    thresholds: tuple[float, ...]
    level: int
    weight: float


@dataclass(frozen=True)
class PairExplanation:
    """Why v is a positive of u or not: the signals, strongest first, and their sum."""

    u: int
    v: int
    base: float
    signals: tuple[PairSignal, ...]
    score: float
    probability: float
