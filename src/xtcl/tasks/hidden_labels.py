r"""Choices by hidden labels: which columns of the embedding, and which heads, answer for nodes.

The training labels are divided into P parts. Each part is hidden in turn from the whole fit:
relations, sampler, training and heads see the other labels only. So every training label gets a
prediction from a fit that has not seen it, and these predictions choose:

1. C and the calibration of each candidate, as in `choose_c`.
2. How much each candidate counts: the likeliest mixture under a prior.

.. math:: \max_w \sum_u a_u \log \sum_m w_m \, p_m(y_u \mid u) + \sum_m b_m \log w_m,
          \qquad w_m \ge 0, \; \sum_m w_m = 1, \; \sum_m b_m = 5

After Wolpert, "Stacked generalization", Neural Networks 5, 1992. The prior counts as five labels:
:math:`b_m` is ten times as large for logistic heads on trained encoders as for the others, so that
with hardly a hidden label those predict. :math:`a_u` is 1, or, where the metric counts all classes
alike, inversely proportional to the number of labels of a class, with mean 1.

The heads with a weight are then fitted on all training labels. Where 80 % of the hidden labels are
right, the logistic ones on encoders are fitted a second time, with the most confident predictions
of the blend as further labels (`xtcl.tasks.self_training`): as many as are right in a share of
`FitConfig.pseudo_label_precision`, by probabilities that hidden labels have calibrated, and none
below 0.8.

Cost: P fits of sampler, encoders and heads with fewer labels. What reads no label is computed once.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from xtcl.config import FitConfig
from xtcl.tasks.blend import (
    ATTRIBUTE_BLOCKS,
    LIKELY,
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
    CV_TOLERANCE,
    Codes,
    Floats,
    LogisticHead,
    calibrated_likelihood,
    checked_labels,
    held_out_scores_by_c,
    inverse_temperature,
    logistic_path,
    posterior_mean,
    scored_rows,
    stratified_folds,
    take_rows,
)
from xtcl.tasks.metrics import balanced_accuracy, macro_f1
from xtcl.tasks.results import FittedEmbedding
from xtcl.tasks.self_training import (
    MIN_CV_ACCURACY,
    SELF_TRAINING_THRESHOLD,
    refit_on,
    shown_rows,
    threshold_for,
    with_pseudo_labels,
)
from xtcl.tasks.task import Selected
from xtcl.tasks.training_data import TrainingData

if TYPE_CHECKING:
    from xtcl.tasks.fit import Trial

_PRIOR_LABELS = 5.0
_PRIOR_SHARE_OF_OTHERS = 0.1
_MIXTURE_STEPS = 1000
_MIXTURE_TOLERANCE = 1e-8
_MIN_WEIGHT = 0.05
"""A head with a smaller weight is left out: it costs a fit and changes next to nothing."""

CLASS_METRICS = {"balanced_accuracy": balanced_accuracy, "macro_f1": macro_f1}
"""Metrics of predicted classes that count all classes alike."""

BALANCED_METRICS = (*CLASS_METRICS, "roc_auc", "average_precision")
"""Metrics for which the labels of a rare class weigh as much as those of a frequent one."""

CLASS_POWERS = (0.0, 0.25, 0.5, 0.75, 1.0)
"""How strongly rare classes may be favoured where the metric counts all classes alike."""


class Candidate(NamedTuple):
    """A head that could answer: a name for people, its kind, and the blocks that it reads."""

    name: str
    kind: str
    blocks: tuple[str, ...]


def candidates(blocks: Blocks, heads: Sequence[str]) -> list[Candidate]:
    """What is compared.

    Logistic heads: on the encoders of the first strategy, and on these with those of each other one
    or those over likely links, all beside the attributes; on the attributes alone, smoothed or not.
    Then trees on all encoders.
    """
    attributes = tuple(name for name in ATTRIBUTE_BLOCKS if name in blocks)
    encoders = tuple(name for name in blocks if name not in ATTRIBUTE_BLOCKS)
    first, others = encoders[:1], encoders[1:]
    read = [*((*first, other) for other in others), first]
    compared = {_name_of(of): (*of, *attributes) for of in read}
    if attributes:
        compared |= {"smoothed attributes": attributes, "attributes alone": attributes[:1]}
    found = [Candidate(name, LinearMember.kind, of) for name, of in compared.items()]
    found.append(Candidate("boosted trees", TreesMember.kind, encoders))
    return [candidate for candidate in found if candidate.kind in heads]


def _name_of(encoders: Sequence[str]) -> str:
    """How people read the encoders that a candidate reads."""
    strategies = [name.removesuffix("-label-free") for name in encoders if name != LIKELY]
    over_links = [f"{' and '.join(strategies)} positives"] if strategies else []
    likely = ["likely links"] if LIKELY in encoders else []
    return f"encoders on {' and '.join([*over_links, *likely])}"


def choose_by_hidden_labels(data: TrainingData, config: FitConfig, trial: Trial) -> Selected:
    """Hide the parts of the labels in turn, and choose what answers by the hidden ones."""
    ensemble, seed = config.ensembles[0], trial.options.seed
    known, codes = data.labelled, data.known_labels
    checked_labels(codes, len(codes))  # refuses a single class before any work
    part_of = stratified_folds(codes, config.hidden_parts, seed)
    parts = np.unique(part_of[part_of >= 0])
    if not len(parts):
        warnings.warn(
            "No label can be hidden, because every class has one: the first head predicts, and the "
            "recipe compares none.",
            stacklevel=2,
        )
        return Selected(ensemble)
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
    classes, places = np.unique(codes, return_inverse=True)
    order = np.concatenate([np.flatnonzero(part_of == part) for part in parts])
    blend = _blend(tried, places[order], config.metric)
    factors = np.ones(data.graph.num_classes)
    factors[classes] = blend.class_factors
    return Selected(ensemble, blend=replace(blend, class_factors=tuple(factors.tolist())))


def _hidden_scores_of(
    log_probabilities: Floats, codes: Codes, factors: Floats | float = 1.0
) -> tuple[float, float]:
    """Log loss and accuracy of log-probabilities [n, C] on hidden labels, to six digits."""
    loss = -float(log_probabilities[np.arange(len(codes)), codes].mean())
    right = float(((log_probabilities + np.log(factors)).argmax(axis=1) == codes).mean())
    return round(loss, 6), round(right, 6)


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


def _blend(tried: dict[Candidate, list[Tensor]], codes: Codes, metric: str = "accuracy") -> Blend:
    """Choose C, calibration and weights by the scores of all hidden labels.

    `codes` are places among the classes that have a label.
    """
    tables, members = [], []
    for candidate, parts in tried.items():
        scores = torch.cat(parts, dim=1)
        Cs = C_VALUES if candidate.kind == LinearMember.kind else (1.0,)
        C, factor, log_probabilities = pooled_choice(scores, codes, Cs)
        tables.append(log_probabilities)
        loss, right = _hidden_scores_of(log_probabilities, codes)
        members.append(BlendMember(*candidate, 0.0, C, factor, loss, right))
    found = np.stack(tables)
    likelihoods = found[:, np.arange(len(codes)), codes]
    balanced = metric in BALANCED_METRICS
    label_weights = class_weights(codes) if balanced else np.ones(len(codes))
    weights = blend_weights(likelihoods, prior_labels(members), label_weights)
    together = np.tensordot(weights, np.exp(found), axes=1)
    factors = class_factors(together, codes, metric)
    weighted = zip(members, weights.tolist(), strict=True)
    return Blend(
        tuple(each._replace(weight=weight) for each, weight in weighted),
        len(codes),
        *_hidden_scores_of(np.log(together), codes, factors),
        metric,
        tuple(factors.tolist()),
    )


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


def class_weights(codes: Codes) -> Floats:
    """The weight [n] of each label so that every class counts the same; their mean is 1."""
    counts = np.bincount(codes).astype(np.float64)
    return np.asarray(len(codes) / (counts > 0).sum() / counts[codes])


def class_factors(probabilities: Floats, codes: Codes, metric: str) -> Floats:
    r"""Factors of the class probabilities [n, C] before the largest is taken.

    They are :math:`\pi_c^{-k}` with the share of the class, and the power of `CLASS_POWERS` with
    which the hidden labels score best, the smallest of equal ones; all 1 for metrics that are not
    of predicted classes with equal weight.
    """
    shares = np.bincount(codes, minlength=probabilities.shape[1]) / len(codes)
    shares = np.where(shares > 0, shares, shares[shares > 0].min())
    if metric not in CLASS_METRICS:
        return np.ones(len(shares))
    score = CLASS_METRICS[metric]
    best = max(
        CLASS_POWERS,
        key=lambda power: (score(codes, (probabilities * shares**-power).argmax(axis=1)), -power),
    )
    return np.asarray(shares**-best)


def prior_labels(members: Sequence[BlendMember]) -> Floats:
    """How many labels [M] the prior of each candidate counts as."""
    safe = np.array([m.kind == LinearMember.kind and bool(m.encoders) for m in members])
    share = np.where(safe, 1.0, _PRIOR_SHARE_OF_OTHERS)
    return np.asarray(_PRIOR_LABELS * share / share.sum())


def blend_weights(log_likelihood: Floats, prior: Floats, label_weights: Floats) -> Floats:
    """The weights [M] of the candidates, without those below `_MIN_WEIGHT`; they sum to 1."""
    mixed = mixture_weights(log_likelihood, prior, label_weights)
    mixed = np.where(mixed < _MIN_WEIGHT, 0.0, mixed)
    return np.asarray(mixed / mixed.sum())


def mixture_weights(log_likelihood: Floats, prior: Floats, label_weights: Floats) -> Floats:
    """The likeliest weights [M] of a mixture, by expectation maximisation.

    `log_likelihood` [M, n] is that of each hidden label under each candidate, `prior` [M] how many
    labels the prior counts as, `label_weights` [n] how much each label counts.
    """
    relative = np.exp(log_likelihood - log_likelihood.max(axis=0))
    weights = np.full(len(prior), 1 / len(prior))
    for _ in range(_MIXTURE_STEPS):
        shares = weights[:, None] * relative
        expected = (shares / shares.sum(axis=0)) @ label_weights + prior
        last, weights = weights, expected / (label_weights.sum() + prior.sum())
        if np.abs(weights - last).max() < _MIXTURE_TOLERANCE:
            break
    return np.asarray(weights)


def fit_blend(
    data: TrainingData, fitted: FittedEmbedding, blend: Blend, precision: float, seed: int
) -> BlendedHead:
    """Fit the heads that have a weight on all training labels, those on encoders twice.

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
    if precision == 1 or blend.accuracy < MIN_CV_ACCURACY:
        return head
    return _fit_again(data, rows, head, precision, seed)


def _fit_again(
    data: TrainingData, rows: HeadRows, head: BlendedHead, precision: float, seed: int
) -> BlendedHead:
    """The logistic heads on encoders fitted again, with confident predictions as labels."""
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

    def fitted_again(
        each: LinearMember | TreesMember, member: BlendMember
    ) -> LinearMember | TreesMember:
        if not isinstance(each, LinearMember) or not member.encoders:
            return each
        # Labels that are predictions are not worth the many steps to the usual tolerance.
        again = refit_on(
            each.head,
            columns_of(take_rows(rows.embedding, nodes), each.ranges),
            codes,
            lambda: columns_of(shown_rows(rows.embedding), each.ranges),
            tolerance=CV_TOLERANCE,
        )
        return replace(each, head=again.calibrated())

    if len(nodes) == len(known):
        return head
    return replace(head, members=tuple(map(fitted_again, head.members, head.blend.chosen)))
