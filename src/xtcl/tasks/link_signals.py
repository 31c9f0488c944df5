r"""What speaks for a link between two nodes: their embeddings, their degrees, the relations.

A scorer of embeddings knows how close two nodes came, and not how many links they have to give, nor
what the relations saw of them before training. So the chance of a link is

.. math:: \sigma\Big(b + \sum_i w_i x_i(u, v)\Big)

with the signals :math:`x_i`: the scorer's own score; the cosine of the embeddings;
:math:`\log(1 + d)` of the node with fewer links and of the other; every relation's
:math:`s_r(u, v)`, from the node with fewer links to the other; and :math:`\log(1 + 10^4 s_r)`,
because the small similarities of sparse relations differ by orders of magnitude.

The weights are learned from links that a whole fit has not seen: of the links it was fitted on,
relations and embeddings know too much.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xtcl.errors import DataError
from xtcl.tasks.fitted import FittedEmbedding
from xtcl.tasks.link_head import LINK_FOLDS, LinkHead, collapsed
from xtcl.tasks.logistic_head import fit_logistic
from xtcl.tasks.pair_features import Pairs, pair_scores
from xtcl.tasks.rows import Floats

SMALL = 1e4
"""One over the similarity from which on the logarithm of a signal grows."""
ENOUGH = 100
"""Hidden links from which on a few dozen weights can be learned."""


def signals(fitted: FittedEmbedding, scorer: LinkHead, pairs: Pairs) -> Floats:
    """The signals of pairs [2, n], one in a column, in the order of `signal_names`."""
    score = scorer.score(fitted.embedding, pairs)  # checks the pairs, too
    return with_relations(fitted, score, pair_scores(fitted.embedding, pairs, unit=True), pairs)


def with_relations(fitted: FittedEmbedding, score: Floats, cosine: Floats, pairs: Pairs) -> Floats:
    """The signals of pairs whose embeddings have been compared: the scorer's score and cosine."""
    degree = np.diff(fitted.sampler.view_.adjacency.indptr)
    from_fewer = np.where(degree[pairs[0]] > degree[pairs[1]], pairs[::-1], pairs)
    fewer, more = np.log1p(degree[from_fewer])
    related = fitted.sampler.similarities(from_fewer).astype(np.float64)
    return np.column_stack([score, cosine, fewer, more, related, np.log1p(SMALL * related)])


def signal_names(fitted: FittedEmbedding) -> tuple[str, ...]:
    """What the columns of `signals` are."""
    relations = [relation.name for relation in fitted.sampler.relations_]
    logs = [f"log {name}" for name in relations]
    return ("scorer", "cosine", "fewer links", "more links", *relations, *logs)


@dataclass(frozen=True)
class SignalHead:
    """Log-odds of a link as a weighted sum of signals, of which the scorer's is the first."""

    scorer: LinkHead
    names: tuple[str, ...]
    weight_: Floats
    bias_: float

    @classmethod
    def of(cls, scorer: LinkHead) -> SignalHead:
        """The scorer alone."""
        weight, bias = scorer.log_odds_
        return cls(scorer, ("scorer",), np.array([weight]), bias)

    def around(self, scorer: LinkHead) -> SignalHead:
        """The same weights with another scorer of the same kind."""
        return SignalHead.of(scorer) if len(self.names) == 1 else replace(self, scorer=scorer)

    @classmethod
    def fit(
        cls,
        fitted: FittedEmbedding,
        scorer: LinkHead,
        links: Pairs,
        non_links: Pairs,
        *,
        seed: int = 0,
    ) -> SignalHead:
        """Learn the weights of all signals from pairs that neither `fitted` nor `scorer` has seen.

        Of fewer than ENOUGH links nothing can be learned: then it is the scorer alone.
        """
        if links.shape[1] < ENOUGH:
            return cls.of(scorer)
        found = signals(fitted, scorer, np.hstack([non_links, links]))
        labels = np.repeat([0, 1], [non_links.shape[1], links.shape[1]])
        mean, spread = found.mean(axis=0), found.std(axis=0)
        spread[spread == 0] = 1.0
        head = fit_logistic(
            (found - mean) / spread,
            labels,
            folds=LINK_FOLDS,
            seed=seed,
            normalise=False,
            device=fitted.embedding.device,
        )
        weight, bias = collapsed(head)
        return cls(
            scorer, signal_names(fitted), weight / spread, bias - float(weight @ (mean / spread))
        )

    def score(self, fitted: FittedEmbedding, pairs: Pairs) -> Floats:
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
        return own | {f"scorer.{name}": each for name, each in self.scorer.to_tensors().items()}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, NDArray[Any]]) -> SignalHead:
        """The head that `to_tensors` wrote."""
        prefix = "scorer."
        scorer = {
            name.removeprefix(prefix): each
            for name, each in tensors.items()
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
