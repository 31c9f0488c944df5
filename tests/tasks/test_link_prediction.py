"""Link prediction chooses plan, epochs and scorer by links hidden from the whole pipeline."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from small_runs import early_stopping_recipe
from torch import Tensor

from xtcl.config import EncoderConfig, EnsembleConfig, FitConfig, TrainingConfig
from xtcl.errors import UsageError
from xtcl.graph.datasets.synthetic import block_model
from xtcl.graph.graph import Graph
from xtcl.graph.splits import link_split, node_split
from xtcl.nn.ensemble import EncoderEnsemble
from xtcl.sampling.xgsampler import XGSampler
from xtcl.tasks import fit as pipeline
from xtcl.tasks import sampled_positives
from xtcl.tasks.fit import Trial, fit_task, train_ensemble
from xtcl.tasks.fit_options import FitOptions
from xtcl.tasks.link_head import LINK_SCORERS, SignalHead, fit_link_head
from xtcl.tasks.link_prediction import (
    VALIDATION_LINK_SHARE,
    HiddenLinks,
    LinkPrediction,
    choose_scorer,
    cosine_auc,
    fit_chosen,
    hide_links,
)
from xtcl.tasks.metrics import auc
from xtcl.tasks.node_classification import NodeClassification
from xtcl.tasks.results import FittedEmbedding
from xtcl.tasks.sampled_positives import SampledPositives, fit_sampler, sample_positives
from xtcl.tasks.task import Selected
from xtcl.tasks.training_data import TrainingData, training_data
from xtcl.training.early_stopping import EarlyStopping, EmbeddingScorer
from xtcl.training.trainer import train as original_train

GRAPH = block_model(80, num_classes=4)


SIDE = training_data(GRAPH, link_split(GRAPH), use_labels=True)


CPU = torch.device("cpu")


SEED = 3


LINKS = hide_links(SIDE, VALIDATION_LINK_SHARE, SEED)


NOISE = np.random.default_rng(0).normal(size=(80, 6)).astype(np.float32)


CLASSES = (np.eye(4)[GRAPH.labels] + 0.1 * NOISE[:, :4]).astype(np.float32)


def plan_of(name: str) -> EnsembleConfig:
    return EnsembleConfig((EncoderConfig({"name": name}, TrainingConfig(epochs=40)),))


def planted(
    embedding: Tensor, plan: EnsembleConfig | None = None, score: float = -1.0
) -> FittedEmbedding:
    """A fit with this embedding, on the graph without the hidden links."""
    sampler = fit_sampler(LINKS.graph, LinkPrediction(), FitConfig(crossfit=0), FitOptions())
    nobody = np.zeros((80, 0), dtype=np.int64)
    return FittedEmbedding(
        sampler, nobody, plan or EnsembleConfig(), EncoderEnsemble([], []), embedding, (), score
    )


SAMPLED = SampledPositives(XGSampler(), np.zeros((80, 0), dtype=np.int64))


class Planted(Trial):
    """A trial that gives planted embeddings, and remembers what it was asked."""

    def __init__(self, **embeddings: np.ndarray) -> None:
        super().__init__(LinkPrediction(), FitConfig(), FitOptions(seed=SEED))
        self.embeddings = embeddings
        self.graphs: list[Graph] = []
        self.seen_scorers: list[EmbeddingScorer | None] = []
        self.to_beat: list[float] = []

    def sample(self, graph: Graph) -> SampledPositives:
        """Note the graph."""
        self.graphs.append(graph)
        return SAMPLED

    def train(
        self,
        graph: Graph,
        ensemble: EnsembleConfig,
        sampled: SampledPositives,
        scorer: EmbeddingScorer | None,
        best_other: float,
    ) -> FittedEmbedding:
        """Note the scorer."""
        assert graph is self.graphs[-1]
        assert sampled is SAMPLED
        self.seen_scorers.append(scorer)
        self.to_beat.append(best_other)
        (encoder,) = ensemble.encoders
        stopped = replace(encoder, training=replace(encoder.training, epochs=17))
        embedding = torch.from_numpy(self.embeddings[str(encoder.encoder["name"])])
        return planted(embedding, EnsembleConfig((stopped,)), len(self.seen_scorers) / 10)

    def choose(self, *names: str, stop_early: bool = True) -> Selected:
        """What link prediction chooses among the plans so named."""
        recipe = FitConfig(ensembles=tuple(map(plan_of, names)), stop_early=stop_early)
        return LinkPrediction().choose(SIDE, recipe, self)


def name_of(choice: Selected) -> object:
    return choice.ensemble.encoders[0].encoder["name"]


def pair_set(pairs: np.ndarray) -> set[tuple[int, int]]:
    return {(min(u, v), max(u, v)) for u, v in pairs.T.tolist()}


def hidden_auc(z: np.ndarray) -> float:
    """How often a hidden link beats a hidden non-link by its cosine, pair by pair."""
    unit = z / np.linalg.norm(z, axis=1, keepdims=True)
    links, others = ([float(unit[u] @ unit[v]) for u, v in side.T] for side in LINKS.hidden)
    wins = [(a > b) + 0.5 * (a == b) for a in links for b in others]
    return float(np.mean(wins))


@pytest.mark.slow
def test_the_trial_gets_the_kept_links_and_nothing_of_the_hidden_ones() -> None:
    trial = Planted(a=CLASSES, b=NOISE)
    trial.choose("a", "b")
    (seen,) = trial.graphs  # relations and sampler run once for all plans
    hidden = pair_set(LINKS.hidden[0])
    assert hidden
    assert not pair_set(seen.edges) & hidden
    assert pair_set(seen.edges) | hidden == pair_set(SIDE.graph.edges)
    assert not pair_set(np.stack(seen.adjacency.nonzero())) & hidden
    assert not pair_set(seen.edge_index) & hidden
    np.testing.assert_array_equal(seen.attributes, SIDE.graph.attributes)
    np.testing.assert_array_equal(seen.labels, SIDE.graph.labels)


@pytest.mark.slow
def test_no_stage_of_a_trial_sees_a_hidden_link(monkeypatch: pytest.MonkeyPatch) -> None:
    views: list[set[tuple[int, int]]] = []
    passed: list[set[tuple[int, int]]] = []
    pulled: list[set[tuple[int, int]]] = []

    def spy_sampler(training: Graph, *rest: Any) -> Any:
        sampler = fit_sampler(training, *rest)
        views.append(pair_set(np.stack(sampler.view_.adjacency.nonzero())))
        return sampler

    def spy_train(make: Any, x: Tensor, edge_index: Tensor, sources: Any, *a: Any, **k: Any) -> Any:
        passed.append(pair_set(edge_index.numpy()))
        links = sources[0]
        rows = np.repeat(np.arange(80), np.diff(links.start.numpy()))
        pulled.append(pair_set(np.stack([rows, links.members.numpy()])))
        return original_train(make, x, edge_index, sources, *a, **k)

    monkeypatch.setattr(sampled_positives, "fit_sampler", spy_sampler)
    monkeypatch.setattr(pipeline, "train", spy_train)
    recipe = early_stopping_recipe("gcn", 10)
    fit_task(SIDE, LinkPrediction(), recipe, FitOptions(seed=SEED))
    kept, whole = pair_set(LINKS.kept[0]), pair_set(SIDE.graph.edges)
    assert views == [kept, whole]
    assert (
        passed == pulled == [*[kept] * len(recipe.ensembles), whole]
    )  # all are tried, one followed


@pytest.mark.slow
@pytest.mark.parametrize("names", [("good", "bad"), ("bad", "good")])
def test_the_plan_with_the_better_hidden_auc_wins(names: tuple[str, str]) -> None:
    trial = Planted(good=CLASSES, bad=NOISE)
    choice = trial.choose(*names)
    scorers = {name: choose_scorer(LINKS, z, SEED) for name, z in trial.embeddings.items()}
    found = {
        name: auc(*(scorers[name].score(z, side) for side in LINKS.hidden))
        for name, z in trial.embeddings.items()
    }
    assert found["good"] > found["bad"] + 0.1
    assert name_of(choice) == "good"
    assert choice.scorer is not None
    np.testing.assert_equal(choice.scorer.scorer.to_tensors(), scorers["good"].to_tensors())


@pytest.mark.slow
def test_of_plans_that_do_equally_well_the_first_wins() -> None:
    for names in (("a", "b"), ("b", "a")):
        assert name_of(Planted(a=CLASSES, b=CLASSES).choose(*names)) == names[0]


@pytest.mark.slow
def test_one_plan_still_chooses_a_scorer() -> None:
    choice = Planted(only=CLASSES).choose("only")
    expected = choose_scorer(LINKS, CLASSES, SEED)
    assert choice.scorer is not None
    chosen = choice.scorer.scorer
    assert (chosen.kind, chosen.C_) == (expected.kind, expected.C_)


@pytest.mark.slow
def test_the_judge_is_the_auc_of_cosines_on_hidden_links() -> None:
    auc_of = cosine_auc(LINKS, CPU)
    for z in (CLASSES, NOISE):
        assert auc_of(torch.from_numpy(z)) == pytest.approx(hidden_auc(z), abs=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("stop_early", [True, False])
def test_a_judge_is_there_where_training_may_stop_early(stop_early: bool) -> None:
    trial = Planted(a=CLASSES, b=NOISE)
    choice = trial.choose("a", "b", stop_early=stop_early)
    assert [auc_of is not None for auc_of in trial.seen_scorers] == [stop_early] * 2
    assert trial.to_beat == [-float("inf"), 0.1]  # each plan knows the best verdict before it
    for auc_of in trial.seen_scorers:
        assert auc_of is None or auc_of(torch.from_numpy(NOISE)) == pytest.approx(hidden_auc(NOISE))
    assert choice.ensemble.encoders[0].training.epochs == 17  # what the trial says counts


@pytest.mark.slow
def test_the_epochs_are_those_after_which_the_judge_saw_the_best() -> None:
    """Against training anew for every number of epochs at which embeddings are scored."""
    training = TrainingConfig(epochs=70, anchors=None, weight_decay=0.0, learning_rate=0.1)
    member = EncoderConfig({"width": 8, "hops": 1, "dropout": 0.2}, training)
    recipe = FitConfig(
        num_positives_per_step=2,
        num_links_per_step=4,
        ensembles=(EnsembleConfig((member,)),),
        stop_early=True,
    )
    options = FitOptions(seed=SEED)
    found = sample_positives(LINKS.graph, LinkPrediction(), recipe, options)

    def trained_for(epochs: int) -> Tensor:
        shorter = EnsembleConfig((replace(member, training=replace(training, epochs=epochs)),))
        fitted = train_ensemble(LINKS.graph, LinkPrediction(), recipe, shorter, found, options)
        return fitted.embedding

    watch = EarlyStopping(lambda z: hidden_auc(z.double().numpy()))
    for epochs in range(1, 71):
        if watch.should_stop(epochs, partial(trained_for, epochs)):
            break
    best_epochs = watch.best_epoch
    whole = fit_task(SIDE, LinkPrediction(), recipe, options).fitted
    assert [member.training.epochs for member in whole.ensemble.encoders] == [best_epochs]
    assert [len(curve) for curve in whole.losses] == [best_epochs]
    assert 0 < best_epochs < 70  # the scores decided


@pytest.mark.slow
def test_without_stop_early_the_recipe_s_epochs_are_kept() -> None:
    recipe = replace(early_stopping_recipe("gcn", 13), stop_early=False)
    fitted = fit_task(SIDE, LinkPrediction(), recipe, FitOptions(seed=SEED)).fitted
    assert fitted.ensemble in recipe.ensembles
    assert [len(curve) for curve in fitted.losses] == [13]


@pytest.mark.slow
def test_fewer_epochs_than_the_judge_waits_for_are_all_trained() -> None:
    fitted = fit_task(SIDE, LinkPrediction(), early_stopping_recipe("gcn", 4), FitOptions()).fitted
    assert [len(curve) for curve in fitted.losses] == [4]


@pytest.mark.slow
def test_the_scorer_is_judged_on_the_trial_s_embedding_and_fitted_on_the_final_one() -> None:
    choice = Planted(a=CLASSES).choose("a")
    assert choice.scorer is not None
    head = LinkPrediction().fit_head(SIDE, torch.from_numpy(NOISE), choice, SEED)
    expected = fit_chosen(choose_scorer(LINKS, CLASSES, SEED), SIDE, NOISE, SEED)
    np.testing.assert_equal(head.scorer.to_tensors(), expected.to_tensors())
    pairs = SIDE.graph.edges[:, :7]
    fitted = planted(torch.from_numpy(NOISE))
    answer = LinkPrediction().answer(head, fitted, 0)
    factor, plus = expected.log_odds_
    odds = factor * expected.score(NOISE, pairs) + plus
    np.testing.assert_allclose(answer.score(pairs), odds, rtol=1e-12)


@pytest.mark.slow
def test_a_head_without_a_scorer_is_refused() -> None:
    with pytest.raises(UsageError, match="chooses a scorer before its head is fitted"):
        LinkPrediction().fit_head(SIDE, torch.from_numpy(NOISE), Selected(EnsembleConfig()), SEED)


@pytest.mark.slow
def test_nodes_take_the_first_plan_and_try_nothing() -> None:
    class NoTrial(Planted):
        """Nothing is hidden, so nothing is tried."""

        def sample(self, graph: Graph) -> SampledPositives:
            raise AssertionError("nothing is hidden, so nothing is tried")

    recipe = FitConfig(ensembles=(plan_of("first"), plan_of("second")))
    side = training_data(GRAPH, node_split(GRAPH, 0.3))
    assert NodeClassification().choose(side, recipe, NoTrial()) == Selected(recipe.ensembles[0])


@pytest.mark.slow
@pytest.mark.parametrize("scored", [True, False])
def test_a_choice_survives_a_checkpoint(scored: bool) -> None:
    members = (
        EncoderConfig({"width": np.int64(8), "restart": 0.1}, TrainingConfig(anchors=None), 0.3),
        EncoderConfig({}, TrainingConfig(temperature=0.1)),
    )
    scorer = SignalHead.of(choose_scorer(LINKS, CLASSES, SEED)) if scored else None
    choice = Selected(EnsembleConfig(members, 1.2), scorer)
    again = Selected.from_tensors(choice.to_tensors())
    assert again.ensemble == choice.ensemble
    if scorer is None:
        assert again.scorer is None
    else:
        assert again.scorer is not None
        np.testing.assert_equal(again.scorer.to_tensors(), scorer.to_tensors())


# The scorer of pairs is chosen by training links that a whole fit did not see.

SIDE_LINK_SCORER_CHOICE = training_data(GRAPH, link_split(GRAPH))


def pair_set_link_scorer_choice(pairs: np.ndarray) -> set[tuple[int, int]]:
    return {(int(u), int(v)) for u, v in pairs.T}


@pytest.mark.parametrize("share", [0.1, 0.3, 0.9])
def test_hidden_and_kept_links_are_the_training_links(share: float) -> None:
    links = hide_links(SIDE_LINK_SCORER_CHOICE, share, seed=0)
    for part, (whole, kept, hidden) in {
        "links": (SIDE_LINK_SCORER_CHOICE.graph.edges, links.kept[0], links.hidden[0]),
        "non-links": (SIDE_LINK_SCORER_CHOICE.negatives, links.kept[1], links.hidden[1]),
    }.items():
        assert pair_set_link_scorer_choice(kept) | pair_set_link_scorer_choice(
            hidden
        ) == pair_set_link_scorer_choice(whole), part
        assert not pair_set_link_scorer_choice(kept) & pair_set_link_scorer_choice(hidden), part
        assert hidden.shape[1] == round(share * whole.shape[1]), part
    assert pair_set_link_scorer_choice(links.graph.edges) == pair_set_link_scorer_choice(
        links.kept[0]
    )


def test_the_seed_hides_the_links() -> None:
    first, again, other = (
        pair_set_link_scorer_choice(hide_links(SIDE_LINK_SCORER_CHOICE, 0.1, s).hidden[0])
        for s in (0, 0, 1)
    )
    assert first == again
    assert first != other


def test_at_least_one_pair_is_on_either_side() -> None:
    few = TrainingData(
        Graph.from_arrays(np.eye(6), [[0, 1, 2], [1, 2, 3]]), np.array([[0, 0], [4, 5]])
    )
    for share in (0.0, 0.01, 0.99, 1.0):
        links = hide_links(few, share, seed=0)
        for pairs in (*links.kept, *links.hidden):
            assert pairs.shape[1] >= 1


def ranked(links: HiddenLinks, z: np.ndarray) -> dict[str, float]:
    heads = {k: fit_link_head(k, z, *links.kept, validation=links.hidden) for k in LINK_SCORERS}
    return {k: auc(*(head.score(z, side) for side in links.hidden)) for k, head in heads.items()}


def embedding_for(kind: str) -> np.ndarray:
    """Rows under which one kind of scorer does best."""
    rng = np.random.default_rng(0)
    assert GRAPH.labels is not None
    direction = np.eye(4)[GRAPH.labels] + 0.05 * rng.normal(size=(80, 4))
    if kind == "cosine":  # lengths mislead, and with one column there is nothing to weigh
        sign = np.where(GRAPH.labels % 2, 1.0, -1.0)[:, None]
        return np.asarray(sign * rng.lognormal(sigma=2.5, size=(80, 1)))
    if kind == "inner":  # all that matters is length: well-linked nodes are long
        degree = SIDE_LINK_SCORER_CHOICE.graph.degrees[:, None] + 0.1
        return np.asarray(degree * np.ones((80, 4)) + 0.01 * rng.normal(size=(80, 4)))
    noise = rng.normal(size=(80, 6)) * 3  # only four of ten columns mean anything
    return np.hstack([direction, noise])


@pytest.mark.parametrize("kind", LINK_SCORERS)
def test_the_best_on_hidden_links_is_chosen(kind: str) -> None:
    links = hide_links(SIDE_LINK_SCORER_CHOICE, 0.3, seed=0)
    z = embedding_for(kind)
    figures = ranked(links, z)
    chosen = choose_scorer(links, z, seed=0)
    assert figures[chosen.kind] == max(figures.values())
    assert chosen.kind == kind, figures


def test_ties_go_to_the_scorer_listed_first() -> None:
    links = hide_links(SIDE_LINK_SCORER_CHOICE, 0.3, seed=0)
    assert choose_scorer(links, np.zeros((GRAPH.num_nodes, 4)), seed=0).kind == LINK_SCORERS[0]


def test_the_chosen_kind_and_c_are_fitted_on_all_training_links() -> None:
    links = hide_links(SIDE_LINK_SCORER_CHOICE, 0.3, seed=0)
    z = embedding_for("hadamard")
    chosen = choose_scorer(links, z, seed=0)
    head = fit_chosen(chosen, SIDE_LINK_SCORER_CHOICE, z, seed=0)
    assert (head.kind, head.C_) == (chosen.kind, chosen.C_)
    alone = fit_link_head(
        chosen.kind,
        z,
        SIDE_LINK_SCORER_CHOICE.graph.edges,
        SIDE_LINK_SCORER_CHOICE.negatives,
        Cs=[chosen.C_],
    )
    np.testing.assert_array_equal(head.weight_, alone.weight_)
    assert not np.array_equal(head.weight_, chosen.weight_)
