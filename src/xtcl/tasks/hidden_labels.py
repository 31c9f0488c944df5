r"""Choices by hidden labels: which columns of the embedding, and which heads, answer for nodes.

The training labels are divided into P parts. Each part is hidden in turn from the whole fit:
relations, sampler, training and heads see the other labels only. So every training label gets a
prediction from a fit that has not seen it, and these predictions choose:

1. C of each logistic candidate, as `choose_c` does, and the calibration of each candidate.
2. Which candidates answer. Those whose log loss is within two standard errors of the lowest, or
   within 0.02, are averaged: with few labels that error is large, and an average is safer than the
   luckiest one.
3. Their weights, where the likeliest mixture of all candidates, with a prior of one label in all,
   is better than that average by more than two standard errors.

.. math:: \max_w \sum_u \log \sum_m w_m \, p_m(y_u \mid u) + \frac 1M \sum_m \log w_m

After Wolpert, "Stacked generalization", Neural Networks 5, 1992. The heads with a weight are then
fitted on all training labels. The logistic ones are fitted a second time, with the most confident
predictions of the blend as further labels (`xtcl.tasks.self_training`): as many as are right in a
share of `FitConfig.pseudo_label_precision`, by probabilities that hidden labels have calibrated,
and none below 0.8.

Cost: P fits of sampler, encoders and heads with fewer labels. What reads no label is computed once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from xtcl.config import FitConfig
from xtcl.tasks.blend import (
    ATTRIBUTE_BLOCKS,
    Blend,
    BlendedHead,
    BlendMember,
    Blocks,
    HeadRows,
    LinearMember,
    Ranges,
    TreesMember,
    column_blocks,
    columns_of,
)
from xtcl.tasks.logistic import (
    C_VALUES,
    Codes,
    Floats,
    LogisticHead,
    calibrated_likelihood,
    held_out_scores_by_c,
    inverse_temperature,
    logistic_path,
    posterior_mean,
    scored_rows,
    stratified_folds,
    take_rows,
)
from xtcl.tasks.results import FittedEmbedding
from xtcl.tasks.self_training import (
    SELF_TRAINING_THRESHOLD,
    refit_on,
    threshold_for,
    with_pseudo_labels,
)
from xtcl.tasks.task import Selected
from xtcl.tasks.training_data import TrainingData

if TYPE_CHECKING:
    from xtcl.tasks.fit import Trial

_PRIOR_LABELS = 1.0
_MIXTURE_STEPS = 1000
_MIXTURE_TOLERANCE = 1e-8
_INDIFFERENCE = 0.02
"""A difference of log loss that changes hardly a class. Two standard errors can be less, where two
candidates predict nearly the same."""

_MIN_WEIGHT = 0.02
"""A head with a smaller weight is left out: it costs a fit and changes next to nothing."""


class Candidate(NamedTuple):
    """A head that could answer: a name for people, its kind, and the blocks that it reads."""

    name: str
    kind: str
    blocks: tuple[str, ...]


def candidates(blocks: Blocks, heads: Sequence[str]) -> list[Candidate]:
    """What is compared.

    Logistic heads: on all encoders beside the attributes, on all over the given links, on those
    that read no label, on the attributes alone, smoothed or not. Then trees.
    """
    attributes = tuple(name for name in ATTRIBUTE_BLOCKS if name in blocks)
    encoders = tuple(name for name in blocks if name not in ATTRIBUTE_BLOCKS)
    strategies = tuple(name for name in encoders if name != "likely")
    together = f"{' and '.join(strategies)} positives"
    read = {f"{together}, likely links": (*encoders, *attributes)}
    read = {} if strategies == encoders else read
    read |= {together: (*strategies, *attributes), "uniform positives": ("uniform", *attributes)}
    if "uniform" not in blocks:
        del read["uniform positives"]
    if attributes:
        read |= {"attributes over links": attributes, "attributes": attributes[:1]}
    found = [Candidate(name, LinearMember.kind, of) for name, of in read.items()]
    found.append(Candidate("boosted trees", TreesMember.kind, encoders))
    return [candidate for candidate in found if candidate.kind in heads]


def choose_by_hidden_labels(data: TrainingData, config: FitConfig, trial: Trial) -> Selected:
    """Hide the parts of the labels in turn, and choose what answers by the hidden ones."""
    ensemble, seed = config.ensembles[0], trial.options.seed
    known, codes = data.labelled, data.known_labels
    part_of = stratified_folds(codes, config.hidden_parts, seed)
    parts = np.unique(part_of[part_of >= 0])
    if not len(parts):
        return Selected(ensemble)  # every class has one label: nothing can be hidden
    tried: dict[Candidate, list[Tensor]] = {}
    for part in parts:
        hidden = known[part_of == part]
        labels = data.labels.copy()
        labels[hidden] = -1
        side = TrainingData(data.graph.with_labels(labels))
        fitted = trial.fit_part(int(part), side.graph, ensemble)
        with trial.options.progress.stage("comparing heads", 1) as advance:
            for candidate, scores in _hidden_scores(side, fitted, hidden, config.heads, seed):
                tried.setdefault(candidate, []).append(scores)
            advance(1)
    places = np.unique(codes, return_inverse=True)[1]
    order = np.concatenate([np.flatnonzero(part_of == part) for part in parts])
    return Selected(ensemble, blend=_blend(tried, places[order]))


def _hidden_scores(
    side: TrainingData, fitted: FittedEmbedding, hidden: Codes, heads: Sequence[str], seed: int
) -> Iterator[tuple[Candidate, Tensor]]:
    """For each candidate the class scores [C, hidden nodes, classes], where trees have one C."""
    blocks = column_blocks(fitted.ensemble, fitted.widths, side.graph.num_attributes)
    known, codes = side.labelled, side.known_labels
    rows = node_rows(side, fitted)
    for candidate in candidates(blocks, heads):
        ranges = ranges_of(candidate.blocks, blocks)
        if candidate.kind == TreesMember.kind:
            trees = TreesMember.fit(rows, ranges, side.graph.num_classes, seed=seed)
            scores = trees.scores(rows, hidden, side.graph.num_classes)[None]
        else:
            shown, held_out = (
                columns_of(take_rows(fitted.embedding, nodes), ranges) for nodes in (known, hidden)
            )
            scores = held_out_scores_by_c(shown, codes, held_out, C_VALUES)
        yield candidate, scores


def node_rows(side: TrainingData, fitted: FittedEmbedding) -> HeadRows:
    """What heads read of all nodes."""
    graph = side.graph
    return HeadRows(fitted.embedding, graph.attributes, graph.adjacency, side.labels)


def ranges_of(names: Sequence[str], blocks: Blocks) -> Ranges:
    """The ranges of columns of several blocks."""
    return tuple(each for name in names for each in blocks[name])


def _blend(tried: dict[Candidate, list[Tensor]], codes: Codes) -> Blend:
    """Choose C, calibration and weights by the scores of all hidden labels."""
    likelihoods, members = [], []
    for candidate, parts in tried.items():
        scores = torch.cat(parts, dim=1)
        Cs = C_VALUES if candidate.kind == LinearMember.kind else (1.0,)
        C, factor, log_probabilities = pooled_choice(scores, codes, Cs)
        likelihoods.append(log_probabilities[np.arange(len(codes)), codes])
        right = float((log_probabilities.argmax(axis=1) == codes).mean())
        loss = -float(likelihoods[-1].mean())
        members.append(BlendMember(*candidate, 0.0, C, factor, round(loss, 6), round(right, 6)))
    weights = blend_weights(np.array(likelihoods))
    weighted = zip(members, weights.tolist(), strict=True)
    return Blend(tuple(each._replace(weight=weight) for each, weight in weighted), len(codes))


def pooled_choice(scores: Tensor, codes: Codes, Cs: Sequence[float]) -> tuple[float, float, Floats]:
    """C and inverse temperature by held-out scores [C, n, classes], as `choose_c` takes them.

    With them come the calibrated log-probabilities [n, classes] at the likeliest C.
    """
    true = torch.from_numpy(codes).to(scores.device)
    likelihood = [calibrated_likelihood(each, true) for each in scores]
    factors = [inverse_temperature(each, true) for each in scores]
    C, factor = (posterior_mean(values, likelihood, len(codes)) for values in (Cs, factors))
    best = int(np.argmax(likelihood))
    calibrated = (factors[best] * scores[best]).log_softmax(dim=1)
    return C, factor, np.asarray(calibrated.cpu().numpy())


def logistic_at(rows: Tensor, labels: Codes, C: float, factor: float) -> LogisticHead:
    """A converged head for a C and an inverse temperature that are known."""
    (head,) = logistic_path(rows, labels, Cs=[C])
    return replace(head, inverse_temperature_=factor).calibrated()


def blend_weights(log_likelihood: Floats) -> Floats:
    """The weights [M] of the candidates; they sum to 1.

    `log_likelihood` [M, n] is that of each hidden label under each candidate.
    """
    best = log_likelihood[int(log_likelihood.mean(axis=1).argmax())]
    level = np.array([_is_level(best - each) for each in log_likelihood])
    equal = level / level.sum()
    mixed = mixture_weights(log_likelihood)
    mixed = np.where(mixed < _MIN_WEIGHT, 0.0, mixed)
    mixed /= mixed.sum()
    gain = mixture_likelihood(mixed, log_likelihood) - mixture_likelihood(equal, log_likelihood)
    return mixed if _is_above(gain) else equal


def _is_level(behind: Floats) -> bool:
    """Whether a candidate is as good as the best one, which it is `behind`."""
    return bool(behind.mean() <= _INDIFFERENCE) or not _is_above(behind)


def _is_above(difference: Floats) -> bool:
    """Whether a mean is above 0 by more than two standard errors."""
    count = len(difference)
    error = difference.std(ddof=1) / count**0.5 if count > 1 else np.inf
    return bool(difference.mean() > 2 * error)


def mixture_weights(log_likelihood: Floats) -> Floats:
    """The likeliest weights of a mixture under the prior, by expectation maximisation.

    They begin equal, so candidates that predict the same have the same weight.
    """
    num_candidates, num_labels = log_likelihood.shape
    relative = np.exp(log_likelihood - log_likelihood.max(axis=0))
    weights = np.full(num_candidates, 1 / num_candidates)
    for _ in range(_MIXTURE_STEPS):
        shares = weights[:, None] * relative
        expected = (shares / shares.sum(axis=0)).sum(axis=1) + _PRIOR_LABELS / num_candidates
        last, weights = weights, expected / (num_labels + _PRIOR_LABELS)
        if np.abs(weights - last).max() < _MIXTURE_TOLERANCE:
            break
    return np.asarray(weights)


def mixture_likelihood(weights: Floats, log_likelihood: Floats) -> Floats:
    """The log-likelihood [n] of each label under the mixture."""
    largest = log_likelihood.max(axis=0)
    return np.asarray(np.log(weights @ np.exp(log_likelihood - largest)) + largest)


def fit_blend(
    data: TrainingData, fitted: FittedEmbedding, blend: Blend, precision: float, seed: int
) -> BlendedHead:
    """Fit the heads that have a weight on all training labels, the logistic ones twice.

    With a `precision` of 1 no prediction becomes a label, and they are fitted once.
    """
    blocks = column_blocks(fitted.ensemble, fitted.widths, data.graph.num_attributes)
    labelled = take_rows(fitted.embedding, data.labelled)
    rows = node_rows(data, fitted)
    heads: list[LinearMember | TreesMember] = []
    for member in blend.chosen:
        ranges, factor = ranges_of(member.blocks, blocks), member.inverse_temperature
        if member.kind == TreesMember.kind:
            trees = TreesMember.fit(rows, ranges, data.graph.num_classes, seed=seed)
            heads.append(trees.calibrated(factor))
        else:
            columns = columns_of(labelled, ranges)
            logistic = logistic_at(columns, data.known_labels, member.C, factor)
            heads.append(LinearMember(ranges, logistic))
    weights = np.array([member.weight for member in blend.chosen])
    head = BlendedHead(weights / weights.sum(), tuple(heads), blend)
    return _fit_again(data, rows, head, precision, seed) if precision < 1 else head


def _fit_again(
    data: TrainingData, rows: HeadRows, head: BlendedHead, precision: float, seed: int
) -> BlendedHead:
    """The logistic heads fitted again, with the confident predictions of the blend as labels."""
    num_nodes = len(rows.embedding)
    compute = head.probabilities(rows, data.graph.num_classes)
    block = scored_rows(rows.embedding.shape[1])
    probabilities = np.concatenate(
        [compute(slice(start, start + block)) for start in range(0, num_nodes, block)]
    )
    known = data.labelled
    threshold = max(SELF_TRAINING_THRESHOLD, threshold_for(probabilities, known, precision))
    nodes, codes = with_pseudo_labels(
        probabilities, known, data.known_labels, threshold=threshold, seed=seed
    )

    def again(member: LinearMember | TreesMember) -> LinearMember | TreesMember:
        if not isinstance(member, LinearMember) or len(nodes) == len(data.labelled):
            return member
        columns = columns_of(rows.embedding, member.ranges)
        return replace(member, head=refit_on(member.head, columns, nodes, codes).calibrated())

    return replace(head, members=tuple(map(again, head.members)))
