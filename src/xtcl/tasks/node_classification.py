"""Node classification: alike means of the same class."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from torch import Tensor

from xtcl.config import (
    FIXED_RULES,
    NODE_HEADS,
    QUICK,
    EncoderConfig,
    EnsembleConfig,
    FitConfig,
    SamplerConfig,
    TrainingConfig,
)
from xtcl.errors import DataError, UsageError
from xtcl.relations.view import TrainingView
from xtcl.sampling.folds import Fold, label_folds
from xtcl.sampling.positives import PositiveLists
from xtcl.tasks.blend import LEARNED, BlendedHead, HeadRows, class_probabilities_of
from xtcl.tasks.hidden_labels import choose_by_hidden_labels, fit_blend
from xtcl.tasks.logistic import LogisticHead, fit_logistic, refit_logistic, scored_rows, take_rows
from xtcl.tasks.results import ComputedPredictions, FittedEmbedding, NodePredictions
from xtcl.tasks.self_training import SELF_TRAINING_THRESHOLD, self_train
from xtcl.tasks.task import Selected, Task
from xtcl.tasks.training_data import TrainingData

if TYPE_CHECKING:
    from xtcl.tasks.fit import Trial

EPOCH_ANCHORS = 20_480
"""About what PubMed has. Weights are as many on a larger graph, and need no more steps."""


LINEAR = EncoderConfig(
    {"width": 1024, "hops": 10, "restart": 0.2},
    TrainingConfig(epochs=14, epoch_anchors=EPOCH_ANCHORS),
)


DEEP = EncoderConfig(
    {"width": 512, "hops": 1, "layers": 2, "batch_norm": True},
    TrainingConfig(epochs=25, anchors=2048, epoch_anchors=EPOCH_ANCHORS, temperature=0.15),
    weight=0.6,
    trust_exponent=2.0,
)


ATTENTION = EncoderConfig(
    {"width": 1024, "hops": 1},
    TrainingConfig(epochs=18, epoch_anchors=EPOCH_ANCHORS),
)


DEEP_ATTENTION = EncoderConfig(
    {"width": 512, "hops": 0, "layers": 2},
    TrainingConfig(epochs=16, anchors=2048, epoch_anchors=EPOCH_ANCHORS, temperature=0.2),
    weight=0.6,
    trust_exponent=2.0,
)


NODE_ENSEMBLES = {
    "gcn": EnsembleConfig((LINEAR, DEEP), attributes=1.1),
    "gat": EnsembleConfig((ATTENTION, DEEP_ATTENTION), attributes=1.2),
}


HIDDEN_PARTS = 3
"""A third of the labels is hidden at a time: fits with fewer parts see too few of them."""


def hidden_labels_recipe(encoder: str, *, quick: bool = False) -> FitConfig:
    """The recipe in which hidden labels choose what answers, in the place of fixed rules.

    The encoders of one and of two layers are trained with uniform positives, which are the same
    whatever labels are hidden, so that they are trained once. Two narrower ones of one layer learn
    from the positives of the sampler of the relations that read no label, one over the given links
    and one over likely links; they are trained for each part, too. The `quick` recipe leaves them
    out, so that no encoder is trained twice, and the trees.
    """
    if encoder in NODE_ENSEMBLES:
        usual = NODE_ENSEMBLES[encoder]
        shallow, deep = (replace(each, trust_exponent=0.0) for each in usual.encoders)
        encoders = [replace(each, positives="uniform") for each in (shallow, deep)]
        if not quick:
            narrow = shallow.encoder | {"width": LEARNED_WIDTH}
            learned = replace(shallow, encoder=narrow, positives=LEARNED)
            encoders += [learned, replace(learned, messages="likely")]
        ensemble = replace(usual, encoders=tuple(encoders))
    else:  # an encoder of the user's own gives the embedding alone
        ensemble = EnsembleConfig((EncoderConfig(positives="uniform" if quick else LEARNED),))
    return FitConfig(
        SamplerConfig(prior_pairs=10),
        ensembles=(ensemble,),
        pseudo_label_precision=PSEUDO_LABEL_PRECISION,
        hidden_parts=HIDDEN_PARTS,
        heads=("logistic",) if quick else NODE_HEADS,
        strategy="uniform" if quick else LEARNED,
    )


LEARNED_WIDTH = 512
"""Of the encoders on the sampler's positives: they are trained once for each part, too."""


PSEUDO_LABEL_PRECISION = 0.92
"""The share of predictions that are right among those which become labels for a second fit."""


DOWNWEIGHT = 0.025
"""A sixth of the weight: hardly there, yet the head may still find what it needs."""


def fixed_rules_recipe(encoder: str) -> FitConfig:
    """The recipe of 2026-11, whose rules were made on five graphs of papers and products.

    Trained briefly, beside the attributes: an encoder of one layer and one of two. The first does
    best where labels are few, the second where nodes are many and positives can be trusted; their
    errors differ.
    """
    return FitConfig(
        SamplerConfig(prior_pairs=10),
        min_probability=0.8,
        # An encoder of the user's own gives the embedding alone.
        ensembles=(NODE_ENSEMBLES.get(encoder, EnsembleConfig()),),
        downweight=DOWNWEIGHT,
        self_training_threshold=SELF_TRAINING_THRESHOLD,
    )


class NodeClassification(Task):
    """I_t(u, v) = 1 where y_u = y_v; logistic regression on the embedding; accuracy."""

    name: ClassVar[str] = "nodes"
    metric: ClassVar[str] = "accuracy"

    def recipe(self, encoder: str) -> FitConfig:
        """That of hidden labels; docs/accuracy.md has its figures.

        They choose among heads of ours, so a task derived from this with a head of its own follows
        the fixed rules.
        """
        if type(self).fit_head is not NodeClassification.fit_head:
            return fixed_rules_recipe(encoder)
        return hidden_labels_recipe(encoder)

    def named_recipe(self, name: str, encoder: str) -> FitConfig:
        """The rules of 2026-11, or a recipe in which hidden labels choose."""
        if name == FIXED_RULES:
            return fixed_rules_recipe(encoder)
        return hidden_labels_recipe(encoder, quick=name == QUICK)

    def folds(self, view: TrainingView, folds: int, rng: np.random.Generator) -> list[Fold]:
        """All pairs of labelled nodes."""
        return label_folds(view, None, folds, rng)

    def sources(
        self, view: TrainingView, positives: np.ndarray, config: FitConfig
    ) -> list[PositiveLists]:
        """The sampler's best candidates."""
        return [PositiveLists.from_table(positives, config.num_positives_per_step)]

    def choose(self, data: TrainingData, config: FitConfig, trial: Trial) -> Selected:
        """With `hidden_parts` what answers is chosen by hidden labels; else the first ensemble."""
        if config.hidden_parts:
            return choose_by_hidden_labels(data, config, trial)
        return super().choose(data, config, trial)

    def fit_chosen(
        self,
        data: TrainingData,
        fitted: FittedEmbedding,
        choice: Selected,
        precision: float,
        seed: int,
    ) -> BlendedHead:
        """The heads of the blend, fitted on all training labels."""
        if choice.blend is None:
            raise UsageError("No blend was chosen: fit_head fits the head.")
        return fit_blend(data, fitted, choice.blend, precision, seed)

    def fit_head(
        self,
        side: TrainingData,
        embedding: Tensor,
        choice: Selected,
        seed: int,
    ) -> LogisticHead | None:
        """Logistic regression, with C chosen by cross-validation on the training labels.

        Good enough to be compared; `finish_head` fits it to the end.

        The label relations have seen those labels, so the accuracy it finds is too high. It decides
        C, the weight of the encoders and whether to fit again; docs/accuracy.md shows the cost.
        """
        known, codes = side.labelled, side.labels[side.labelled]
        return fit_logistic(take_rows(embedding, known), codes, seed=seed, refit=False)

    def finish_head(self, side: TrainingData, embedding: Tensor, head: object) -> object:
        """The same, converged; a head of another kind, of a task derived from this, as it is."""
        if not isinstance(head, LogisticHead):
            return head
        known, codes = side.labelled, side.labels[side.labelled]
        return refit_logistic(head, take_rows(embedding, known), codes)

    def self_train(
        self,
        side: TrainingData,
        embedding: Tensor,
        head: LogisticHead,
        config: FitConfig,
        seed: int,
    ) -> LogisticHead:
        """The head fitted again, with its own confident predictions as further labels."""
        known, codes = side.labelled, side.labels[side.labelled]
        return self_train(
            head,
            embedding,
            known,
            codes,
            threshold=config.self_training_threshold,
            seed=seed,
        )

    def cv_log_likelihood(self, head: LogisticHead) -> float:
        """Mean log-likelihood of labels held out of the head, calibrated.

        The label relations have seen those labels, which makes the encoders look better than they
        are. So it cannot decide how much weight they get; but where even this figure is hardly
        better with them, less is better.
        """
        return head.cv_likelihood_

    def answer(
        self, head: LogisticHead | BlendedHead, fitted: FittedEmbedding, num_classes: int
    ) -> NodePredictions:
        """Class probabilities, calibrated."""
        view, z = fitted.sampler.view_, fitted.embedding
        rows = HeadRows(z, view.attributes, view.adjacency, view.labels)
        compute = class_probabilities_of(head, rows, num_classes)
        answer = ComputedPredictions(compute, len(z), scored_rows(z.shape[1]))
        if isinstance(head, BlendedHead):
            factors = np.array(head.blend.class_factors)
            if factors.size not in (0, num_classes):
                raise DataError(
                    f"The saved head has factors for {factors.size} classes, but there are "
                    f"{num_classes}; fit and save the model again."
                )
            answer.choice = head.blend
            answer.class_factors = factors if factors.size else None
        return answer
