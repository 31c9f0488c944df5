"""Top-k mode pair by pair, in plain Python: from whole rows to counts and positives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp
import torch
from dense import all_rows

from xtcl.relations.relation import Relation
from xtcl.relations.thresholds import levels
from xtcl.relations.view import TrainingView
from xtcl.sampling.candidates import Shuffle
from xtcl.sampling.folds import Fold
from xtcl.sampling.stumps import Stumps


def capped_levels(
    relation: Relation, view: TrainingView, quantiles: Sequence[float], cap: int
) -> np.ndarray:
    """For how many quantiles v is among the `cap` best of u's above set: int [V, V]."""
    rows = all_rows(relation, view)
    reached = np.zeros(rows.shape, dtype=np.int64)
    for quantile in quantiles:
        above = levels(torch.from_numpy(rows), torch.arange(len(rows)), [quantile]).numpy()
        for u in range(len(rows)):
            found = sorted((-rows[u, v], v) for v in range(len(rows)) if above[u, v])
            for _, v in found[:cap]:
                reached[u, v] += 1
    return reached


def codes(
    relations: Sequence[Relation], view: TrainingView, quantiles: Sequence[float], cap: int
) -> np.ndarray:
    """The pattern code of every pair: int [V, V]."""
    base = len(quantiles) + 1
    digits = [capped_levels(relation, view, quantiles, cap) for relation in relations]
    return np.asarray(sum(digit * base**place for place, digit in enumerate(digits)))


def counted(fold: Fold, code: np.ndarray) -> Counter[tuple[int, bool]]:
    """How often each code occurs, with and without a match."""
    found: Counter[tuple[int, bool]] = Counter()
    alike, counts = fold.dense_labels(fold.queries)
    for row, u in enumerate(fold.queries):
        for column, v in enumerate(fold.candidates):
            if counts[row, column]:
                found[int(code[u, v]), bool(alike[row, column])] += 1
    return found


def positives(
    code: np.ndarray,
    stumps: Stumps,
    number: int,
    similarity: np.ndarray | None,
    exclude: sp.csr_array | None,
) -> list[list[int]]:
    """The nodes of each row, sorted by score, then similarity, then the shuffle of seed 0."""
    count, base = len(code), stumps.weights.shape[1]
    chance = Shuffle(count, 0, torch.device("cpu"))(torch.arange(count)).numpy()
    banned = np.zeros(code.shape) if exclude is None else exclude.toarray()
    best = []
    for u in range(count):
        ranked = []
        for v in range(count):
            if not code[u, v] or banned[u, v]:
                continue
            score = stumps.base
            for place, weight in enumerate(stumps.weights):
                score += weight[code[u, v] // base**place % base]
            tie = 0.0 if similarity is None else float(similarity[u, v])
            ranked.append((np.float32(score), tie, chance[u, v], v))
        found = [v for *_, v in sorted(ranked, reverse=True)[:number]]
        best.append(found + [-1] * (number - len(found)))
    return best
