"""Naive XGBoost: the stock library on all labelled pairs, against which XGSampler is timed.

XGBoost is an extra: it is imported on first use.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import torch
from torch import Tensor

from xtcl.errors import DataError, NotFittedError, UsageError
from xtcl.relations.blocks import rows_per_block
from xtcl.relations.registry import resolve_relations
from xtcl.relations.relation import Relation, SimilarityRows
from xtcl.relations.rows import usable_relations
from xtcl.relations.view import TrainingView
from xtcl.sampling.folds import Fold

if TYPE_CHECKING:
    from xgboost import Booster, QuantileDMatrix


STUMPS = {"objective": "binary:logistic", "max_depth": 1, "eta": 1.0, "tree_method": "hist"}
"""What makes the stock library boost stumps; all else is its own default."""


class NaiveXGBoost:
    r"""XGBoost in place of XTCL's sampler, for its time alone: run by xtcl reproduce time.

    The similarities of a pair are its features, and whether it is alike is its class. Every round
    searches all relations and thresholds for the stump of greatest gain

    .. math:: \tfrac12 \Big[ \frac{G_0^2}{H_0 + \lambda} + \frac{G_1^2}{H_1 + \lambda}
              - \frac{(G_0 + G_1)^2}{H_0 + H_1 + \lambda} \Big],
              \qquad w_l = \frac{-G_l}{H_l + \lambda}

    with one threshold for all nodes, where XGSampler goes through the relations in a given order
    and has a threshold for each node. Chen and Guestrin, "XGBoost: A Scalable Tree Boosting
    System", KDD 2016. It learns from the same folds of pairs as `XGSampler`, in as many rounds as
    there are relations, on the device of the view that is fitted, with `threads` threads on the CPU
    (torch's number by default).

    Cost: O(n R) a round of n pairs and R relations. The pairs are held in memory: 4 bytes for each
    pair and relation, and as much again in passing.
    """

    name: ClassVar[str] = "naive-xgboost"
    title: ClassVar[str] = "Naive XGBoost"
    tasks: ClassVar[frozenset[str]] = frozenset()
    """None: it is timed, and nothing is done with its scores."""

    relations_: tuple[Relation, ...]
    booster_: Booster

    def __init__(
        self, relations: str | Iterable[str | Relation] = "paper", *, threads: int | None = None
    ) -> None:
        self.relations = relations
        self.threads = threads

    def fit(self, view: TrainingView, folds: Sequence[Fold]) -> NaiveXGBoost:
        """Learn from the pairs of `folds`; `scores` will be those of the pairs of `view`."""
        require_xgboost()
        if not folds:
            raise UsageError("Naive XGBoost needs at least one fold of pairs to fit, and got none.")
        self.relations_, lacking = usable_relations(resolve_relations(self.relations), view)
        if not self.relations_:
            raise DataError(
                f"None of the relations {', '.join(lacking)} can be computed from what the graph "
                "has: choose others."
            )
        parts = [labelled_pairs(self.relations_, fold) for fold in folds]
        values, alike = (np.concatenate(part) for part in zip(*parts, strict=True))
        threads = self.threads or torch.get_num_threads()
        self.booster_ = boost(pair_table(values, alike, threads), threads, view.device.type)
        self._view = view  # what scores need of it is no part of the fit, which is timed
        return self

    def scores(self, nodes: Tensor) -> np.ndarray:
        """How likely `nodes` [b] are alike with every node, float32 [b, V]."""
        if not hasattr(self, "booster_"):
            raise NotFittedError("Naive XGBoost knows no stumps yet; call fit first.")
        from xgboost import DMatrix

        values = similarities([relation.on(self._view) for relation in self.relations_], nodes)
        chances = self.booster_.predict(DMatrix(values.reshape(-1, values.shape[-1])))
        return np.asarray(chances).reshape(values.shape[:-1])


def require_xgboost() -> None:
    """Refuse to go on without XGBoost."""
    try:
        import xgboost  # noqa: F401
    except ImportError:
        raise UsageError(
            'Naive XGBoost needs XGBoost, which is not installed: pip install "xtcl[bench]".'
        ) from None


def similarities(
    rows: Sequence[SimilarityRows], nodes: Tensor, columns: Tensor | slice = slice(None)
) -> np.ndarray:
    """Every relation's similarities of `nodes` [b] to the nodes `columns`, float32 [b, c, R]."""
    return torch.stack([each(nodes)[:, columns] for each in rows], dim=-1).cpu().numpy()


def labelled_pairs(relations: Sequence[Relation], fold: Fold) -> tuple[np.ndarray, np.ndarray]:
    """The similarities [n, R] of the pairs of a fold that count, and which of them are alike."""
    rows = [relation.on(fold.view) for relation in relations]
    height = rows_per_block(fold.view.num_nodes * len(relations))
    columns = torch.from_numpy(fold.candidates).to(fold.view.device)
    values, answers = [], []
    for nodes in torch.split(torch.from_numpy(fold.queries), height):
        alike, counted = fold.dense_labels(nodes.numpy())
        values.append(similarities(rows, nodes, columns)[counted])
        answers.append(alike[counted])
    return np.concatenate(values), np.concatenate(answers)


def pair_table(values: np.ndarray, alike: np.ndarray, threads: int) -> QuantileDMatrix:
    """XGBoost's own form of the pairs: similarities [n, R] and answers [n]."""
    from xgboost import QuantileDMatrix

    return QuantileDMatrix(values, alike, nthread=threads)


def boost(table: QuantileDMatrix, threads: int, device: str = "cpu") -> Booster:
    """XGBoost's stumps, one round for each relation."""
    from xgboost import train

    settings = STUMPS | {"nthread": threads, "device": device}
    return train(settings, table, num_boost_round=table.num_col())
