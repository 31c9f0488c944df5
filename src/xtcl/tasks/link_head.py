"""Scores of node pairs from their embeddings: the head of link prediction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from xtcl.errors import DataError, UsageError
from xtcl.tasks.logistic_head import LogisticHead, fit_logistic, logistic_path
from xtcl.tasks.metrics import auc
from xtcl.tasks.pair_features import Pairs, checked_pairs, pair_features, pair_scores
from xtcl.tasks.rows import Floats, Rows, checked_rows
from xtcl.tasks.strength_choice import USUAL_STRENGTH

KINDS = ("cosine", "inner", "hadamard")
LINK_FOLDS = 3
# Links that made z are easier than others, so strong penalties do best on sparse graphs; a coarse
# grid is enough, because hidden links judge it.
LINK_STRENGTHS = (0.03, 0.3, 3.0, 30.0)


@dataclass(frozen=True)
class LinkHead:
    """A scorer of pairs, of one of three kinds.

    - cosine: score = <z_u, z_v> / (|z_u| |z_v|), 0 where a row is zero
    - inner: score = <z_u, z_v>
    - hadamard: score = <weight_, z_u * z_v> + bias_ of rows at unit length, a log-odds.

    The first two have one weight, which turns the score into log-odds (Platt, 1999).
    """

    kind: str
    weight_: Floats
    """[d] for hadamard, else [1]"""
    bias_: float
    strength_: float

    def score(self, z: Rows, pairs: ArrayLike, device: torch.device | None = None) -> Floats:
        """One score per column of pairs [2, n]: the higher, the more likely a link.

        Computed on `device`, the CPU by default.
        """
        if self.kind != "hadamard":
            return pair_scores(z, pairs, unit=self.kind == "cosine", device=device)
        return pair_scores(z, pairs, unit=True, weight=self.weight_, device=device) + self.bias_

    @property
    def log_odds_(self) -> tuple[float, float]:
        """What turns a score into log-odds, where links are as common as among the pairs fitted.

        A factor, and what is added.
        """
        return (1.0, 0.0) if self.kind == "hadamard" else (float(self.weight_[0]), self.bias_)

    def to_tensors(self) -> dict[str, NDArray[Any]]:
        """Everything as arrays, for a safetensors file; the kind as the bytes of its name."""
        return {
            "kind": np.frombuffer(self.kind.encode(), dtype=np.uint8).copy(),
            "weight": self.weight_,
            "bias": np.array([self.bias_]),
            "strength": np.array([self.strength_]),
        }

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, NDArray[Any]]) -> LinkHead:
        """The head that `to_tensors` wrote."""
        try:
            return cls(
                kind=_checked_kind(tensors["kind"].tobytes().decode()),
                weight_=tensors["weight"],
                bias_=float(tensors["bias"][0]),
                strength_=float(tensors["strength"][0]),
            )
        except KeyError as missing:
            raise DataError(
                f"The saved link head lacks {missing}; save the model again with this version."
            ) from missing


def fit_link_head(
    kind: str,
    z: Rows,
    positives: ArrayLike,
    negatives: ArrayLike,
    *,
    strengths: Sequence[float] = LINK_STRENGTHS,
    seed: int = 0,
    max_pairs: int = 20_000,
    validation: tuple[ArrayLike, ArrayLike] | None = None,
    device: torch.device | None = None,
) -> LinkHead:
    """Fit a scorer on training links and non-links, each [2, n].

    Of several strengths a hadamard head takes the one with the best AUC on `validation` (links,
    non-links), or else the best in cross-validation over the training pairs. Links that made z are
    easier than others, so cross-validation over them trusts the embedding too much: pass links
    that were hidden from it where there are any. At most `max_pairs` pairs are used, half of them
    links, drawn by the seed. The fit runs on `device`, the CPU by default. Memory about
    48 max_pairs d bytes.
    """
    rows = checked_rows(z, "The embedding", device)
    rng = np.random.default_rng(seed)
    sides = [
        _at_most(checked_pairs(side, len(rows)), max_pairs // 2, rng, what)
        for side, what in ((negatives, "non-links"), (positives, "links"))
    ]
    labels = np.repeat([0, 1], [side.shape[1] for side in sides])
    pairs = np.hstack(sides)
    if _checked_kind(kind) != "hadamard":
        scores = pair_scores(rows, pairs, unit=kind == "cosine")[:, None]
        return _link_head(kind, _only_fit(scores, labels, USUAL_STRENGTH, device))
    features = pair_features(rows, pairs)
    if len(strengths) == 1:
        return _link_head(kind, _only_fit(features, labels, strengths[0], device))
    if validation is None:
        found = fit_logistic(
            features,
            labels,
            strengths=strengths,
            folds=LINK_FOLDS,
            seed=seed,
            normalise=False,
            device=device,
        )
        return _link_head(kind, found)
    path = logistic_path(features, labels, strengths=strengths, normalise=False, device=device)
    # max keeps the first of equals, and the path starts with the strongest penalty.
    return max((_link_head(kind, head) for head in path), key=lambda h: _auc(h, rows, *validation))


def _auc(head: LinkHead, z: Rows, positives: ArrayLike, negatives: ArrayLike) -> float:
    return auc(head.score(z, positives), head.score(z, negatives))


def _only_fit(
    features: Floats | Tensor,
    labels: NDArray[np.int64],
    strength: float,
    device: torch.device | None,
) -> LogisticHead:
    (head,) = logistic_path(features, labels, strengths=[strength], normalise=False, device=device)
    return head


def collapsed(head: LogisticHead) -> tuple[Floats, float]:
    """Two classes and their centring as one weight vector: log-odds = <weight, x> + bias."""
    weight = (head.coef_[1] - head.coef_[0]) / head.scale_
    return weight, float(head.intercept_[1] - head.intercept_[0] - head.mean_ @ weight)


def _link_head(kind: str, head: LogisticHead) -> LinkHead:
    return LinkHead(kind, *collapsed(head), head.strength_)


def _at_most(pairs: Pairs, limit: int, rng: np.random.Generator, what: str) -> Pairs:
    if limit < 1:
        raise UsageError(f"max_pairs leaves {limit} {what}; allow at least 2 pairs.")
    if not pairs.shape[1]:
        raise DataError(f"There are no {what} to fit a link scorer on; pass at least one pair.")
    if pairs.shape[1] <= limit:
        return pairs
    return pairs[:, np.sort(rng.choice(pairs.shape[1], size=limit, replace=False))]


def _checked_kind(kind: str) -> str:
    if kind not in KINDS:
        raise UsageError(f"There is no link scorer named {kind!r}; use one of {', '.join(KINDS)}.")
    return kind
