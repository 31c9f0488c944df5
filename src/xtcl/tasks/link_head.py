r"""The head of link prediction: scores of node pairs.

`LinkHead` scores a pair by its embeddings alone. `SignalHead` adds what embeddings do not contain,
the degrees of both nodes and the similarities of the relations before training:

.. math:: p(u, v) = \sigma\Big(b + \sum_i w_i x_i(u, v)\Big)

with the signals :math:`x_i`: the score of the `LinkHead`; the cosine of the embeddings;
:math:`\log(1 + d)` of the node with fewer links and of the other; every relation's
:math:`s_r(u, v)`, from the node with fewer links to the other; and :math:`\log(1 + 10^4 s_r)`,
because the similarities of sparse relations differ by orders of magnitude. The weights are learned
from links that were hidden from the whole fit: relations and embeddings fit the others too well.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from xtcl.errors import DataError, UsageError, first_few
from xtcl.nn.functional import normalize
from xtcl.renamed import HEAD_ARRAYS
from xtcl.tasks.logistic import (
    DEFAULT_C,
    Floats,
    LogisticHead,
    RowMatrix,
    checked_rows,
    fit_logistic,
    logistic_path,
)
from xtcl.tasks.metrics import auc
from xtcl.tasks.results import FittedEmbedding

LINK_SCORERS = ("cosine", "inner", "hadamard")
LINK_FOLDS = 3

# The links that made z are easier than others, so a small C does best on sparse graphs. A coarse
# grid is enough, because hidden links choose from it.
LINK_C_VALUES = (0.03, 0.3, 3.0, 30.0)

MIN_HIDDEN_LINKS = 100
"""The fewest hidden links that the weights of a few dozen signals are learned from."""


_LOG_SCALE = 1e4  # log(1 + 1e4 s) grows from similarities of about 1e-4
_PAIRS_BLOCK = 2**22  # numbers of a block of pairs that is scored, for each end: 32 MiB

NodePairs = NDArray[np.int64]


@dataclass(frozen=True)
class LinkHead:
    """A scorer of pairs, of one of three kinds.

    - cosine: score = <z_u, z_v> / (|z_u| |z_v|), 0 where a row is zero
    - inner: score = <z_u, z_v>
    - hadamard: score = <weight_, z_u * z_v> + bias_ of rows at unit length, a log-odds.

    For the first two a weight and a bias turn the score into log-odds (Platt, 1999).
    """

    kind: str
    weight_: Floats
    """[d] for hadamard, else [1]"""
    bias_: float
    C_: float

    def score(self, z: RowMatrix, pairs: ArrayLike, device: torch.device | None = None) -> Floats:
        """One score per column of pairs [2, n]: the higher, the more likely a link.

        Computed on `device`, the CPU by default.
        """
        if self.kind != "hadamard":
            return pair_scores(z, pairs, unit=self.kind == "cosine", device=device)
        return pair_scores(z, pairs, unit=True, weight=self.weight_, device=device) + self.bias_

    @property
    def log_odds_(self) -> tuple[float, float]:
        """A factor and a term that turn a score into log-odds.

        They hold where links are as frequent as among the pairs of the fit.
        """
        return (1.0, 0.0) if self.kind == "hadamard" else (float(self.weight_[0]), self.bias_)

    def to_tensors(self) -> dict[str, NDArray[Any]]:
        """Everything as arrays, for a safetensors file; the kind as the bytes of its name."""
        return {
            "kind": np.frombuffer(self.kind.encode(), dtype=np.uint8).copy(),
            "weight": self.weight_,
            "bias": np.array([self.bias_]),
            "C": np.array([self.C_]),
        }

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, NDArray[Any]]) -> LinkHead:
        """The head that `to_tensors` wrote, in this version or an earlier one."""
        arrays = {HEAD_ARRAYS.get(name, name): array for name, array in tensors.items()}
        try:
            return cls(
                kind=_checked_kind(arrays["kind"].tobytes().decode()),
                weight_=arrays["weight"],
                bias_=float(arrays["bias"][0]),
                C_=float(arrays["C"][0]),
            )
        except KeyError as missing:
            raise DataError(
                f"The saved link head lacks {missing}; save the model again with this version."
            ) from missing


def fit_link_head(
    kind: str,
    z: RowMatrix,
    positives: ArrayLike,
    negatives: ArrayLike,
    *,
    Cs: Sequence[float] = LINK_C_VALUES,
    seed: int = 0,
    max_pairs: int = 20_000,
    validation: tuple[ArrayLike, ArrayLike] | None = None,
    device: torch.device | None = None,
) -> LinkHead:
    """Fit a scorer on training links and non-links, each [2, n].

    A hadamard head takes the C with the best AUC on `validation` (links, non-links), or else the
    one of a cross-validation over the training pairs. Links that made z are easier than others, so
    that cross-validation trusts the embedding too much: pass links that were hidden from it if
    there are any. At most `max_pairs` pairs are used, half of them links, drawn by the seed. The
    fit runs on `device`, the CPU by default. Memory about 48 max_pairs d bytes.
    """
    rows = checked_rows(z, "The embedding", device)
    rng = np.random.default_rng(seed)
    sides = [
        _sample_pairs(checked_pairs(side, len(rows)), max_pairs // 2, rng, what)
        for side, what in ((negatives, "non-links"), (positives, "links"))
    ]
    labels = np.repeat([0, 1], [side.shape[1] for side in sides])
    pairs = np.hstack(sides)
    features: Floats | Tensor
    if _checked_kind(kind) == "hadamard":
        features = pair_features(rows, pairs)
    else:
        features, Cs = pair_scores(rows, pairs, unit=kind == "cosine")[:, None], [DEFAULT_C]
    if validation is None and len(Cs) > 1:
        head = fit_logistic(
            features, labels, Cs=Cs, folds=LINK_FOLDS, seed=seed, normalise=False, device=device
        )
        return _link_head(kind, head)
    path = logistic_path(features, labels, Cs=Cs, normalise=False, device=device)
    heads = [_link_head(kind, head) for head in path]
    if validation is None or len(Cs) == 1:
        return heads[0]
    links, non_links = validation
    # The first of equals, which has the smallest C.
    return max(heads, key=lambda head: auc(head.score(rows, links), head.score(rows, non_links)))


def _sample_pairs(pairs: NodePairs, limit: int, rng: np.random.Generator, what: str) -> NodePairs:
    if limit < 1:
        raise UsageError(f"max_pairs leaves {limit} {what}; allow at least 2 pairs.")
    if not pairs.shape[1]:
        raise DataError(f"There are no {what} to fit a link scorer on; pass at least one pair.")
    if pairs.shape[1] <= limit:
        return pairs
    return pairs[:, np.sort(rng.choice(pairs.shape[1], size=limit, replace=False))]


def _checked_kind(kind: str) -> str:
    if kind not in LINK_SCORERS:
        raise UsageError(
            f"There is no link scorer named {kind!r}; use one of {', '.join(LINK_SCORERS)}."
        )
    return kind


def _link_head(kind: str, head: LogisticHead) -> LinkHead:
    return LinkHead(kind, *_log_odds_weights(head), head.C_)


def _log_odds_weights(head: LogisticHead) -> tuple[Floats, float]:
    """A head of two classes and its centring as one vector: log-odds = <weight, x> + bias."""
    weight = (head.coef_[1] - head.coef_[0]) / head.scale_
    return weight, float(head.intercept_[1] - head.intercept_[0] - head.mean_ @ weight)


@dataclass(frozen=True)
class SignalHead:
    """Log-odds of a link as a weighted sum of signals; the first is the scorer's."""

    scorer: LinkHead
    names: tuple[str, ...]
    weight_: Floats
    bias_: float

    @classmethod
    def of(cls, scorer: LinkHead) -> SignalHead:
        """The scorer alone."""
        weight, bias = scorer.log_odds_
        return cls(scorer, ("scorer",), np.array([weight]), bias)

    def with_scorer(self, scorer: LinkHead) -> SignalHead:
        """The same weights with another scorer of the same kind."""
        return SignalHead.of(scorer) if len(self.names) == 1 else replace(self, scorer=scorer)

    @classmethod
    def fit(
        cls,
        fitted: FittedEmbedding,
        scorer: LinkHead,
        links: NodePairs,
        non_links: NodePairs,
        *,
        seed: int = 0,
    ) -> SignalHead:
        """Learn the weights of all signals from pairs that were hidden from `fitted` and `scorer`.

        With fewer links than MIN_HIDDEN_LINKS it is the scorer alone.
        """
        if links.shape[1] < MIN_HIDDEN_LINKS:
            return cls.of(scorer)
        x = signals(fitted, scorer, np.hstack([non_links, links]))
        labels = np.repeat([0, 1], [non_links.shape[1], links.shape[1]])
        mean, scale = x.mean(axis=0), x.std(axis=0)
        scale[scale == 0] = 1.0
        head = fit_logistic(
            (x - mean) / scale,
            labels,
            folds=LINK_FOLDS,
            seed=seed,
            normalise=False,
            device=fitted.embedding.device,
        )
        weight, bias = _log_odds_weights(head)
        bias -= float(weight @ (mean / scale))
        return cls(scorer, signal_names(fitted), weight / scale, bias)

    def score(self, fitted: FittedEmbedding, pairs: NodePairs) -> Floats:
        """Log-odds of a link for each of the pairs [2, n]."""
        if len(self.names) == 1:
            return float(self.weight_[0]) * self.scorer.score(fitted.embedding, pairs) + self.bias_
        if self.names != signal_names(fitted):
            raise DataError(
                f"The link head weighs the signals {', '.join(self.names)}, but the fit has "
                f"{', '.join(signal_names(fitted))}; pass the fit it was made with."
            )
        return signals(fitted, self.scorer, pairs) @ self.weight_ + self.bias_

    def to_tensors(self) -> dict[str, NDArray[Any]]:
        """Everything as arrays, for a safetensors file; the names as bytes, line by line."""
        names = np.frombuffer("\n".join(self.names).encode(), dtype=np.uint8).copy()
        own: dict[str, NDArray[Any]] = {
            "names": names,
            "weight": self.weight_,
            "bias": np.array([self.bias_]),
        }
        return own | {f"scorer.{name}": array for name, array in self.scorer.to_tensors().items()}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, NDArray[Any]]) -> SignalHead:
        """The head that `to_tensors` wrote, in this version or an earlier one."""
        prefix = "scorer."
        scorer = {
            name.removeprefix(prefix): array
            for name, array in tensors.items()
            if name.startswith(prefix)
        }
        try:
            return cls(
                LinkHead.from_tensors(scorer),
                tuple(tensors["names"].tobytes().decode().split("\n")),
                tensors["weight"],
                float(tensors["bias"][0]),
            )
        except KeyError as missing:
            raise DataError(
                f"The saved link head lacks {missing}; save the model again with this version."
            ) from missing


def signals(fitted: FittedEmbedding, scorer: LinkHead, pairs: NodePairs) -> Floats:
    """The signals [n, signals] of pairs [2, n], in the order of `signal_names`."""
    score = scorer.score(fitted.embedding, pairs)  # also checks the pairs
    return _with_relations(fitted, score, pair_scores(fitted.embedding, pairs, unit=True), pairs)


def signal_names(fitted: FittedEmbedding) -> tuple[str, ...]:
    """The names of the columns of `signals`."""
    relations = [relation.name for relation in fitted.sampler.relations_]
    logs = [f"log {name}" for name in relations]
    return ("scorer", "cosine", "fewer links", "more links", *relations, *logs)


def _with_relations(
    fitted: FittedEmbedding, score: Floats, cosine: Floats, pairs: NodePairs
) -> Floats:
    """The signals of pairs, given the score and the cosine of their embeddings."""
    degree = np.diff(fitted.sampler.view_.adjacency.indptr)
    from_fewer = np.where(degree[pairs[0]] > degree[pairs[1]], pairs[::-1], pairs)
    fewer, more = np.log1p(degree[from_fewer])
    similarity = fitted.sampler.similarities(from_fewer).astype(np.float64)
    logs = np.log1p(_LOG_SCALE * similarity)
    return np.column_stack([score, cosine, fewer, more, similarity, logs])


class LinkBlocks:
    """`SignalHead.score`, up to rounding, for every pair of some nodes with some others.

    Cost of b nodes with m others: b m d, and the relations' rows of the b nodes. Memory: about
    thirty numbers for each pair, and the embedding in float64.
    """

    def __init__(self, head: SignalHead, fitted: FittedEmbedding) -> None:
        self.head = head
        self.fitted = fitted
        self.rows = fitted.embedding.double()
        self.unit = normalize(self.rows)

    def scores(self, nodes: Tensor, others: Tensor) -> Floats:
        """Log-odds [b, m]; no node may have more links than any of the others."""
        cosine = self.unit[nodes] @ self.unit[others].T
        score = self._scorer_scores(nodes, others, cosine)
        shape = tuple(score.shape)
        if len(self.head.names) == 1:
            return float(self.head.weight_[0]) * score.cpu().numpy() + self.head.bias_
        pairs = torch.stack([nodes.repeat_interleave(len(others)), others.repeat(len(nodes))])
        compared, cosines = (part.flatten().cpu().numpy() for part in (score, cosine))
        x = _with_relations(self.fitted, compared, cosines, pairs.cpu().numpy())
        log_odds: Floats = (x @ self.head.weight_ + self.head.bias_).reshape(shape)
        return log_odds

    def _scorer_scores(self, nodes: Tensor, others: Tensor, cosine: Tensor) -> Tensor:
        scorer = self.head.scorer
        if scorer.kind == "cosine":
            return cosine
        if scorer.kind == "inner":
            return self.rows[nodes] @ self.rows[others].T
        weight = torch.tensor(scorer.weight_, device=self.rows.device)
        return (weight * self.unit[nodes]) @ self.unit[others].T + scorer.bias_


def pair_scores(
    z: RowMatrix,
    pairs: ArrayLike,
    *,
    unit: bool,
    weight: Floats | None = None,
    device: torch.device | None = None,
) -> Floats:
    """sum_j weight_j z_uj z_vj of each pair (weight 1 if None), of rows at unit length if `unit`.

    A pair's score depends neither on its order nor on the pairs around it. Computed on `device`,
    the CPU by default. Cost n d; memory two blocks of rows beside z.
    """
    rows = checked_rows(z, "The embedding", device)
    if weight is not None and len(weight) != rows.shape[1]:
        raise DataError(
            f"The embedding has {rows.shape[1]} columns, but the head was fitted on {len(weight)}; "
            "pass rows from the model the head was fitted with."
        )
    factors = None if weight is None else torch.tensor(weight, device=rows.device)
    scores = [
        (products if factors is None else products.mul_(factors)).sum(dim=1)
        for products in _products(rows, checked_pairs(pairs, len(rows)), unit)
    ]
    return np.asarray(torch.cat(scores).cpu().numpy()) if scores else np.zeros(0)


def pair_features(z: RowMatrix, pairs: ArrayLike, device: torch.device | None = None) -> Tensor:
    """The Hadamard product of both rows at unit length, [n, d], on the device."""
    rows = checked_rows(z, "The embedding", device)
    products = list(_products(rows, checked_pairs(pairs, len(rows)), unit=True))
    return torch.cat(products) if products else rows.new_zeros(0, rows.shape[1]).double()


def checked_pairs(pairs: ArrayLike, num_nodes: int) -> NodePairs:
    """`pairs` as node numbers [2, n] below `num_nodes`, or a DataError."""
    columns = np.asarray(pairs)
    if columns.ndim != 2 or len(columns) != 2 or not np.issubdtype(columns.dtype, np.integer):
        raise DataError(
            f"The pairs are {columns.dtype} of shape {columns.shape}; "
            "pass integers of shape (2, n)."
        )
    outside = np.flatnonzero(((columns < 0) | (columns >= num_nodes)).any(axis=0))
    if outside.size:
        raise DataError(
            f"Pairs {first_few(outside)} name a node that the embedding does not have; "
            f"use node numbers from 0 to {num_nodes - 1}."
        )
    return columns.astype(np.int64)


def _products(rows: Tensor, pairs: NodePairs, unit: bool) -> Iterator[Tensor]:
    """z_u z_v in float64, in blocks of pairs."""
    length = torch.ones(len(rows), 1, dtype=torch.float64, device=rows.device)
    if unit:
        measured = torch.linalg.vector_norm(rows, dim=1, keepdim=True, dtype=torch.float64)
        length = measured.where(measured > 0, length)
    ends = torch.from_numpy(pairs).to(rows.device)
    step = max(1, _PAIRS_BLOCK // max(1, rows.shape[1]))
    for u, v in (part.unbind() for part in torch.split(ends, step, dim=1) if ends.shape[1]):
        left, right = (rows[node].double().div_(length[node]) for node in (u, v))
        yield left.mul_(right)
