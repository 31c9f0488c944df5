r"""Choices by hidden labels: which columns of the embedding, and which heads, answer for nodes.

The training labels are divided into P parts. Each part is hidden in turn from the whole fit:
relations, sampler, training and heads see the other labels only. So every training label gets a
prediction from a fit that has not seen it, and these predictions choose:

1. C of each candidate, as the posterior mean of `choose_c`, and its calibration.
2. The candidate that is taken alone: the first in order of preference whose log loss is within one
   standard error of the lowest. With few labels the error is large, and the first one is taken.
3. The weights of a blend, by the likelihood of the mixture with a prior of one label for each
   candidate. The blend is taken if it beats the single candidate by more than one standard error.

.. math:: \max_w \sum_u \log \sum_m w_m \, p_m(y_u \mid u) + \sum_m \tfrac 1M \log w_m

After Wolpert, "Stacked generalization", Neural Networks 5, 1992, and Breiman and others,
"Classification and Regression Trees", 1984 (the rule of one standard error). Cost: P fits of
sampler and encoders with fewer labels; what depends on no label is computed once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from xtcl.config import FitConfig
from xtcl.tasks.blend import (
    ATTRIBUTES,
    Blend,
    BlendedHead,
    Blocks,
    Member,
    column_blocks,
    columns_of,
)
from xtcl.tasks.logistic import (
    C_VALUES,
    Codes,
    Floats,
    held_out_log_probabilities,
    logistic_at,
    pooled_choice,
    stratified_folds,
    take_rows,
)
from xtcl.tasks.results import FittedEmbedding
from xtcl.tasks.task import Selected
from xtcl.tasks.training_data import TrainingData

if TYPE_CHECKING:
    from xtcl.tasks.fit import Trial

_PRIOR_LABELS = 1.0
_MIXTURE_STEPS = 1000
_MIN_WEIGHT = 0.02
"""Heads with a smaller weight are left out: they cost a fit and change next to nothing."""


class Candidate(NamedTuple):
    """A head that could answer: a name for people, and the blocks of columns that it reads."""

    name: str
    blocks: tuple[str, ...]


def candidates(blocks: Blocks) -> list[Candidate]:
    """What is compared, in order of preference.

    First all encoders beside the attributes, then those of one strategy, then the attributes alone.
    """
    attributes = tuple(name for name in ATTRIBUTES if name in blocks)
    strategies = tuple(name for name in blocks if name not in ATTRIBUTES)
    found = [Candidate(f"{name} positives", (name, *attributes)) for name in strategies]
    if len(strategies) > 1:
        together = Candidate(f"{' and '.join(strategies)} positives", (*strategies, *attributes))
        found = [together, *found]
    if attributes:
        found += [
            Candidate("attributes over links", attributes),
            Candidate("attributes", attributes[:1]),
        ]
    return found


def choose_by_hidden_labels(data: TrainingData, config: FitConfig, trial: Trial) -> Selected:
    """Hide the parts of the labels in turn, and choose what answers by the hidden ones."""
    ensemble, seed = config.ensembles[0], trial.options.seed
    known, codes = data.labelled, data.known_labels
    part_of = stratified_folds(codes, config.hidden_parts, seed)
    tried: dict[Candidate, list[Tensor]] = {}
    parts = np.unique(part_of[part_of >= 0])
    for part in parts:
        labels = data.labels.copy()
        labels[known[part_of == part]] = -1
        graph = data.graph.with_labels(labels)
        fitted = trial.fit_part(int(part), graph, ensemble)
        with trial.options.progress.stage("comparing heads", 1) as advance:
            for candidate, scores in _hidden_scores(
                fitted, graph.num_attributes, known, codes, part_of == part
            ):
                tried.setdefault(candidate, []).append(scores)
            advance(1)
    if not len(parts):
        return Selected(ensemble, blend=None)
    order = np.concatenate([np.flatnonzero(part_of == part) for part in parts])
    return Selected(ensemble, blend=_blend(tried, np.unique(codes, return_inverse=True)[1][order]))


def _hidden_scores(
    fitted: FittedEmbedding, num_attributes: int, known: Codes, codes: Codes, hidden: np.ndarray
) -> list[tuple[Candidate, Tensor]]:
    """For each candidate the class scores [C, hidden nodes, classes] under each C."""
    blocks = column_blocks(fitted.ensemble, fitted.widths, num_attributes)
    shown_rows = take_rows(fitted.embedding, known[~hidden])
    hidden_rows = take_rows(fitted.embedding, known[hidden])
    found = []
    for candidate in candidates(blocks):
        ranges = ranges_of(candidate.blocks, blocks)
        scores = held_out_log_probabilities(
            columns_of(shown_rows, ranges), codes[~hidden], columns_of(hidden_rows, ranges)
        )
        found.append((candidate, scores))
    return found


def ranges_of(names: Sequence[str], blocks: Blocks) -> tuple[tuple[int, int], ...]:
    """The ranges of columns of several blocks."""
    return tuple(each for name in names for each in blocks[name])


def _blend(tried: dict[Candidate, list[Tensor]], codes: Codes) -> Blend:
    """Choose C, calibration and weights from the scores of all hidden labels."""
    on_hidden = []
    members = []
    for candidate, parts in tried.items():
        C, factor, log_probabilities = pooled_choice(torch.cat(parts, dim=1), codes, C_VALUES)
        of_true = log_probabilities[np.arange(len(codes)), codes]
        right = log_probabilities.argmax(axis=1) == codes
        on_hidden.append(of_true)
        members.append(
            Member(
                candidate.name,
                candidate.blocks,
                0.0,
                C,
                factor,
                round(-float(of_true.mean()), 6),
                round(float(right.mean()), 6),
            )
        )
    weights = blend_weights(np.array(on_hidden))
    return Blend(
        tuple(m._replace(weight=float(w)) for m, w in zip(members, weights, strict=True)),
        len(codes),
    )


def blend_weights(log_likelihood: Floats) -> Floats:
    """The weights [M] of candidates in order of preference.

    `log_likelihood` [M, n] is that of each hidden label under each candidate.
    """
    single = np.zeros(len(log_likelihood))
    single[first_within_error(log_likelihood)] = 1.0
    mixed = mixture_weights(log_likelihood)
    mixed = np.where(mixed < _MIN_WEIGHT, 0.0, mixed)
    mixed /= mixed.sum()
    gain = mixture_likelihood(mixed, log_likelihood) - mixture_likelihood(single, log_likelihood)
    return mixed if gain.mean() > _standard_error(gain) else single


def first_within_error(log_likelihood: Floats) -> int:
    """The first candidate whose mean is within one standard error of the best one's."""
    best = log_likelihood[int(log_likelihood.mean(axis=1).argmax())]
    for number, own in enumerate(log_likelihood):
        behind = best - own
        if behind.mean() <= _standard_error(behind):
            return number
    raise AssertionError  # the best one is within its own error


def mixture_weights(log_likelihood: Floats) -> Floats:
    """The likeliest weights of a mixture with the prior, by expectation maximisation."""
    num_candidates, num_labels = log_likelihood.shape
    relative = np.exp(log_likelihood - log_likelihood.max(axis=0))
    weights = np.full(num_candidates, 1 / num_candidates)
    for _ in range(_MIXTURE_STEPS):
        shares = weights[:, None] * relative
        shares /= shares.sum(axis=0)
        expected = shares.sum(axis=1) + _PRIOR_LABELS / num_candidates
        updated = expected / (num_labels + _PRIOR_LABELS)
        if np.abs(updated - weights).max() < 1e-8:
            break
        weights = updated
    return np.asarray(updated)


def mixture_likelihood(weights: Floats, log_likelihood: Floats) -> Floats:
    """The log-likelihood of each label under the mixture."""
    largest = log_likelihood.max(axis=0)
    return np.asarray(np.log(weights @ np.exp(log_likelihood - largest)) + largest)


def _standard_error(values: Floats) -> float:
    return float(values.std(ddof=1) / len(values) ** 0.5) if len(values) > 1 else float("inf")


def fit_blend(data: TrainingData, fitted: FittedEmbedding, blend: Blend, seed: int) -> BlendedHead:
    """Fit the heads that have a weight on all training labels."""
    known, codes = data.labelled, data.known_labels
    blocks = column_blocks(fitted.ensemble, fitted.widths, data.graph.num_attributes)
    heads, ranges = [], []
    for member in blend.chosen:
        read = ranges_of(member.blocks, blocks)
        rows = columns_of(take_rows(fitted.embedding, known), read)
        heads.append(logistic_at(rows, codes, member.C, member.inverse_temperature))
        ranges.append(read)
    weights = np.array([member.weight for member in blend.chosen])
    return BlendedHead(weights / weights.sum(), tuple(heads), tuple(ranges), blend)
