"""Link prediction: two nodes are alike where they are linked."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from xtcl.config import EncoderConfig, EnsembleConfig, FitConfig, TrainingConfig
from xtcl.errors import UsageError
from xtcl.graph.graph import Graph
from xtcl.nn.functional import normalize
from xtcl.relations.view import TrainingView
from xtcl.sampling.folds import Fold, link_folds
from xtcl.sampling.positives import PositiveLists
from xtcl.tasks.link_head import LINK_SCORERS, LinkHead, SignalHead, fit_link_head
from xtcl.tasks.logistic import RowMatrix, checked_rows
from xtcl.tasks.metrics import auc, device_auc
from xtcl.tasks.results import NO_SCORE, FittedEmbedding, LinkScores
from xtcl.tasks.task import Selected, Task
from xtcl.tasks.training_data import TrainingData
from xtcl.training.early_stopping import EmbeddingScorer

if TYPE_CHECKING:
    from xtcl.tasks.fit import Trial

VALIDATION_LINK_SHARE = 0.1
"""Share of the training links that are hidden while ensemble and scorer are chosen."""


GENTLE = TrainingConfig(
    epochs=30,
    anchors=None,
    learning_rate=2e-3,
    weight_decay=0.0,
    temperature=0.1,
    link_dropout=0.5,
)


SHARP = replace(GENTLE, epochs=150, temperature=0.05, link_dropout=0.3)


LINK_ENSEMBLES = {
    "gcn": (
        EnsembleConfig((EncoderConfig({"width": 512, "hops": 1, "dropout": 0.7}, GENTLE),)),
        EnsembleConfig(
            (EncoderConfig({"width": 512, "hops": 1, "dropout": 0.2, "layers": 2}, SHARP),)
        ),
    ),
    "gat": (
        EnsembleConfig(
            (EncoderConfig({"width": 512, "dropout": 0.7}, replace(GENTLE, learning_rate=4e-3)),)
        ),
        EnsembleConfig((EncoderConfig({"width": 512, "dropout": 0.2}, SHARP),)),
    ),
}


class LinkPrediction(Task):
    """I_t(u, v) = 1 where (u, v) is a link; signals of pairs; area under the ROC curve."""

    name: ClassVar[str] = "links"
    metric: ClassVar[str] = "auc"

    def recipe(self, encoder: str) -> FitConfig:
        """One layer trained gently, or a sharper loss and longer training; hidden links decide.

        On sparse graphs the second loses up to a point; on dense ones it gains a tenth or two.
        docs/accuracy.md has the figures.
        """
        return FitConfig(
            positives=10,
            num_positives_per_step=2,
            num_links_per_step=4,
            candidate_weight=0.3,
            ensembles=LINK_ENSEMBLES.get(encoder, (EnsembleConfig((EncoderConfig({}, GENTLE),)),)),
            stop_early=True,
            signals=True,
        )

    def folds(self, view: TrainingView, folds: int, rng: np.random.Generator) -> list[Fold]:
        """Pairs of linked nodes with all nodes."""
        return link_folds(view, folds, rng)

    def excluded(self, view: TrainingView, config: FitConfig) -> sp.csr_array | None:
        """Known links, where they are positives outright."""
        return view.adjacency if config.num_links_per_step else None

    def sources(
        self, view: TrainingView, positives: np.ndarray, config: FitConfig
    ) -> list[PositiveLists]:
        """Known links, and the sampler's best candidates among the unlinked."""
        candidates = PositiveLists.from_table(
            positives, config.num_positives_per_step, config.candidate_weight
        )
        if not config.num_links_per_step:
            return [candidates]
        return [PositiveLists.from_links(view.adjacency, config.num_links_per_step), candidates]

    def choose(self, data: TrainingData, config: FitConfig, trial: Trial) -> Selected:
        """Hide links, try each ensemble without them, and pick the one that ranks them best.

        Relations, sampler and training see none of the hidden links. The AUC on them decides the
        epochs, the scorer and the ensemble, which is then trained on all links.
        """
        seed, device = trial.options.seed, trial.options.device
        links = hide_links(data, VALIDATION_LINK_SHARE, seed)
        stopping = cosine_auc(links, device) if config.stop_early else None
        sampled = trial.sample(links.graph)

        tried, best_other = [], NO_SCORE
        for ensemble in config.ensembles:
            fitted = trial.train(links.graph, ensemble, sampled, stopping, best_other)
            scorer = choose_scorer(links, fitted.embedding, seed)
            tried.append((links.validation_auc(scorer, fitted.embedding), fitted, scorer))
            best_other = max(best_other, fitted.validation_score)
        # max takes the first of equals: the ensemble that is listed first is the usual one.
        _, best, scorer = max(tried, key=lambda each: each[0])
        if not config.signals:
            return Selected(best.ensemble, SignalHead.of(scorer))
        return Selected(best.ensemble, SignalHead.fit(best, scorer, *links.hidden, seed=seed))

    def fit_head(
        self,
        side: TrainingData,
        embedding: Tensor,
        choice: Selected,
        seed: int,
    ) -> SignalHead:
        """The chosen scorer, fitted on all links, with the weights that hidden links gave."""
        if choice.scorer is None:
            raise UsageError("Link prediction chooses a scorer before its head is fitted.")
        scorer = fit_chosen(choice.scorer.scorer, side, embedding, seed)
        return choice.scorer.with_scorer(scorer)

    def answer(self, head: SignalHead, fitted: FittedEmbedding, num_classes: int) -> LinkScores:
        """Scores of pairs."""
        return LinkScores(lambda pairs: head.score(fitted, pairs))


@dataclass(frozen=True)
class HiddenLinks:
    """Training links divided: a graph of the kept ones, and (links, non-links) of both parts."""

    graph: Graph
    kept: tuple[np.ndarray, np.ndarray]
    hidden: tuple[np.ndarray, np.ndarray]

    def validation_auc(
        self, head: LinkHead, rows: RowMatrix, device: torch.device | None = None
    ) -> float:
        """The AUC of a scorer on the hidden part."""
        return auc(*(head.score(rows, pairs, device) for pairs in self.hidden))


def hide_links(side: TrainingData, share: float, seed: int) -> HiddenLinks:
    """Hide a share of the training links, and of the training non-links."""
    rng = np.random.default_rng([seed, side.graph.num_edges])
    (hidden, kept), (hidden_non, kept_non) = (
        _divide(pairs, share, rng) for pairs in (side.graph.edges, side.negatives)
    )
    return HiddenLinks(side.graph.with_edges(kept), (kept, kept_non), (hidden, hidden_non))


def _divide(
    pairs: np.ndarray, share: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    order = rng.permutation(pairs.shape[1])
    cut = min(max(1, round(share * len(order))), len(order) - 1)
    return pairs[:, np.sort(order[:cut])], pairs[:, np.sort(order[cut:])]


def cosine_auc(links: HiddenLinks, device: torch.device) -> EmbeddingScorer:
    """A scorer of embeddings: the AUC of their cosines on the hidden links."""
    sides = [torch.from_numpy(np.array(pairs)).to(device) for pairs in links.hidden]

    def score(embedding: Tensor) -> float:
        rows = normalize(embedding)
        return device_auc(*((rows[u] * rows[v]).sum(dim=1) for u, v in sides))

    return score


def choose_scorer(
    links: HiddenLinks, embedding: RowMatrix, seed: int, *, device: torch.device | None = None
) -> LinkHead:
    """The scorer with the best AUC on the hidden links, fitted on the kept ones."""
    rows = checked_rows(embedding, "The embedding", device)
    heads = [
        fit_link_head(kind, rows, *links.kept, seed=seed, validation=links.hidden, device=device)
        for kind in LINK_SCORERS
    ]
    return max(heads, key=lambda head: links.validation_auc(head, rows))


def fit_chosen(
    chosen: LinkHead,
    side: TrainingData,
    embedding: RowMatrix,
    seed: int,
    *,
    device: torch.device | None = None,
) -> LinkHead:
    """A scorer of the kind and C of `chosen`, fitted on all training links."""
    return fit_link_head(
        chosen.kind,
        embedding,
        side.graph.edges,
        side.negatives,
        Cs=[chosen.C_],
        seed=seed,
        device=device,
    )
