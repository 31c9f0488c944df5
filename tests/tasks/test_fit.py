"""A whole fit: what each task feeds to the sampler, the training and the head."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from small_blends import mixed_by_hand, rows_of
from small_runs import (
    COMPARING,
    COUNTING,
    FINDING,
    TRAINING,
    Recorder,
    hidden_stages,
    narrow,
    reads_no_label,
    small_graph,
    small_model,
    small_split,
)
from torch import nn

from xtcl.config import FIXED_RULES, EncoderConfig, EnsembleConfig, FitConfig, TrainingConfig
from xtcl.graph.graph import Graph
from xtcl.graph.splits import LinkSplit, NodeSplit
from xtcl.nn import ENCODERS
from xtcl.nn.encoder import encoder_inputs
from xtcl.nn.ensemble import EncoderEnsemble
from xtcl.relations.view import TrainingView
from xtcl.tasks.blend import BlendedHead
from xtcl.tasks.fit import MIN_GAIN, encoder_seed, fit_task, train_ensemble, with_head
from xtcl.tasks.fit_options import FitOptions
from xtcl.tasks.link_prediction import LinkPrediction
from xtcl.tasks.logistic import LogisticHead, fit_logistic, refit_logistic
from xtcl.tasks.node_classification import NodeClassification
from xtcl.tasks.results import LinkScores, NodePredictions
from xtcl.tasks.sampled_positives import fit_sampler, sample_positives
from xtcl.tasks.self_training import self_train
from xtcl.tasks.task import Selected
from xtcl.tasks.training_data import TrainingData, training_data

GRAPH = small_graph()


def side_of(task: str) -> TrainingData:
    return training_data(GRAPH, small_split(GRAPH, task))


def recipe_of(task: str, name: str | None = None) -> FitConfig:
    return small_model(task, recipe=name).resolved_recipe()


def test_by_fixed_rules_nodes_end_in_logistic_regression_fitted_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("xtcl.tasks.self_training.MIN_CV_ACCURACY", 0.5)  # this graph is a hard one
    side, recipe = side_of("nodes"), recipe_of("nodes", FIXED_RULES)
    fitted = fit_task(side, NodeClassification(), recipe, FitOptions(seed=5))
    z = fitted.fitted.embedding
    assert isinstance(fitted.head, LogisticHead)
    known, labels = side.labelled, side.labels[side.labelled]
    first = refit_logistic(fit_logistic(z[known], labels, seed=5, refit=False), z[known], labels)
    expected = self_train(first, z, known, labels, seed=5)
    assert (expected.coef_ != first.coef_).any()
    np.testing.assert_array_equal(fitted.head.coef_, expected.coef_)
    assert isinstance(fitted.answer, NodePredictions)
    calibrated = expected.calibrated().predict_proba(z, 3)
    np.testing.assert_array_equal(fitted.answer.probabilities, calibrated)


def test_by_default_nodes_end_in_the_heads_that_hidden_labels_chose() -> None:
    heard = Recorder()
    side, recipe = side_of("nodes"), recipe_of("nodes")
    fitted = fit_task(side, NodeClassification(), recipe, FitOptions(seed=5, progress=heard))
    # Each part learns and finds anew, and trains what reads labels; the others are trained once.
    assert heard.names == hidden_stages(recipe)
    encoders = recipe.ensembles[0].encoders
    assert [reads_no_label(recipe, each) for each in encoders[:3]] == [True, True, False]
    assert heard.names.count(TRAINING) == 2 + (len(encoders) - 2) * (recipe.hidden_parts + 1)
    assert heard.names.count(COMPARING) == recipe.hidden_parts == 3
    assert isinstance(fitted.head, BlendedHead)
    assert fitted.head.blend.num_hidden == len(side.labelled)
    assert len(fitted.head.members) == len(fitted.head.blend.chosen)
    assert isinstance(fitted.answer, NodePredictions)
    expected = mixed_by_hand(fitted.head, rows_of(side.graph, fitted.fitted), 3)
    np.testing.assert_allclose(fitted.answer.probabilities, expected, atol=1e-5)
    assert fitted.answer.choice == fitted.head.blend


def test_links_fit_first_on_fewer_links_with_every_plan_and_then_with_one() -> None:
    heard = Recorder()
    side = side_of("links")
    recipe = recipe_of("links")
    fitted = fit_task(side, LinkPrediction(), recipe, FitOptions(progress=heard))
    tried = [TRAINING] * len(recipe.ensembles)
    assert heard.names == [COUNTING, FINDING, *tried, COUNTING, FINDING, TRAINING]
    assert len(recipe.ensembles) > 1
    assert isinstance(fitted.answer, LinkScores)
    np.testing.assert_array_equal(
        fitted.answer.score(side.negatives),
        fitted.head.score(fitted.fitted, side.negatives),
    )


@pytest.mark.parametrize("task", [NodeClassification(), LinkPrediction()])
def test_positives_are_never_the_node_itself_nor_excluded(
    task: NodeClassification | LinkPrediction,
) -> None:
    side = side_of(task.name)
    found = sample_positives(side.graph, task, recipe_of(task.name), FitOptions()).positives
    assert found.shape == (80, recipe_of(task.name).positives)
    for node, row in enumerate(found):
        named = row[row >= 0].tolist()
        assert node not in named
        assert len(set(named)) == len(named)
    linked = side.graph.adjacency.toarray() > 0
    pairs = [(u, v) for u, row in enumerate(found.tolist()) for v in row if v >= 0]
    assert any(linked[pair] for pair in pairs) is (task.name == "nodes")


def test_with_one_hop_positives_are_links_and_for_links_there_is_nothing_else() -> None:
    nodes, links = side_of("nodes"), side_of("links")
    recipe = replace(recipe_of("nodes"), hops=1)
    found = sample_positives(nodes.graph, NodeClassification(), recipe, FitOptions()).positives
    u, place = np.nonzero(found >= 0)
    assert nodes.graph.adjacency.toarray()[u, found[u, place]].all()
    assert len(u) > 0
    recipe = replace(recipe_of("links"), hops=1)
    fitted = fit_task(links, LinkPrediction(), recipe, FitOptions()).fitted
    assert (fitted.positives < 0).all()
    assert torch.isfinite(fitted.embedding).all()


def test_link_training_draws_known_links_and_weighs_candidates() -> None:
    side = side_of("links")
    recipe = LinkPrediction().recipe("gcn")
    view = TrainingView.of(side.graph)
    table = np.tile(np.arange(10), (80, 1))
    links, candidates = LinkPrediction().sources(view, table, recipe)
    assert (links.num_per_step, links.weight) == (recipe.num_links_per_step, 1.0)
    assert (candidates.num_per_step, candidates.weight) == (
        recipe.num_positives_per_step,
        recipe.candidate_weight,
    )
    neighbours = [set(row.nonzero()[0].tolist()) for row in side.graph.adjacency.toarray()]
    for node in range(80):
        members = links.members[links.start[node] : links.start[node + 1]]
        assert set(members.tolist()) == neighbours[node]


def test_node_training_draws_the_sampler_s_positives() -> None:
    recipe = NodeClassification().recipe("gat")
    table = np.array([[1, 2], [0, -1], [-1, -1]])
    (source,) = NodeClassification().sources(TrainingView.of(GRAPH), table, recipe)
    assert source.members.tolist() == [1, 2, 0]
    assert source.start.tolist() == [0, 2, 3, 3]
    assert (source.num_per_step, source.weight) == (recipe.num_positives_per_step, 1.0)


def test_the_sampler_sees_the_training_labels_only() -> None:
    split = small_split(GRAPH, "nodes")
    assert isinstance(split, NodeSplit)
    sampler = fit_sampler(
        side_of("nodes").graph, NodeClassification(), recipe_of("nodes"), FitOptions()
    )
    assert np.flatnonzero(sampler.view_.labels >= 0).tolist() == split.train.tolist()


def test_the_sampler_sees_the_training_links_only() -> None:
    split = small_split(GRAPH, "links")
    assert isinstance(split, LinkSplit)
    sampler = fit_sampler(
        side_of("links").graph, LinkPrediction(), recipe_of("links"), FitOptions()
    )
    seen = sampler.view_.adjacency.toarray()
    assert seen.sum() == 2 * split.train.shape[1]
    assert (seen[split.train[0], split.train[1]] == 1).all()
    assert (sampler.view_.labels == -1).all()


@pytest.mark.parametrize("encoder", ["gcn", "gat", "own"])
@pytest.mark.parametrize("task", [NodeClassification(), LinkPrediction()])
def test_default_recipes_make_encoders(
    task: NodeClassification | LinkPrediction, encoder: str
) -> None:
    plans = task.recipe(encoder).ensembles
    for plan in plans:
        for member in plan.encoders:
            if encoder == "own":
                assert member.encoder == {}
            else:
                ENCODERS[encoder](16, **(member.encoder | {"width": 8}))
    assert all(plan.attributes > 0 for plan in plans) is (task.name == "nodes" and encoder != "own")
    if encoder == "own":
        assert [len(plan.encoders) for plan in plans] == [1]  # its own output and nothing else


def test_without_a_recipe_the_task_s_own_is_used() -> None:
    side = side_of("nodes")
    default = fit_task(side, NodeClassification())
    recipe = NodeClassification().recipe("gcn")
    named = fit_task(side, NodeClassification(), recipe, FitOptions())
    assert default.fitted.ensemble.attributes == recipe.ensembles[0].attributes
    trained = zip(default.fitted.ensemble.encoders, recipe.ensembles[0].encoders, strict=True)
    for member, before in trained:
        assert (member.encoder, member.training) == (before.encoder, before.training)
    np.testing.assert_array_equal(default.fitted.embedding, named.fitted.embedding)


# Members and how they are joined

TWO = EnsembleConfig(
    (
        EncoderConfig({"width": 4, "hops": 1}, TrainingConfig(epochs=3)),
        EncoderConfig({"width": 6, "layers": 2, "batch_norm": True}, TrainingConfig(epochs=5), 0.3),
    ),
    attributes=1.5,
)


def unit(rows: np.ndarray) -> np.ndarray:
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(lengths > 0, lengths, 1.0))


def test_members_are_trained_apart_and_joined_with_the_attributes() -> None:
    """Against each member fitted alone, and smoothing written out with dense matrices."""
    side = side_of("nodes")
    task, options = NodeClassification(), FitOptions(seed=4)
    recipe = FitConfig(ensembles=(TWO,))
    whole = fit_task(side, task, recipe, options).fitted
    found = sample_positives(side.graph, task, recipe, options)
    alone = []
    for number, member in enumerate(TWO.encoders):
        own = replace(options, seed=encoder_seed(4, number))
        alone.append(
            train_ensemble(side.graph, task, recipe, EnsembleConfig((member,)), found, own)
        )
    assert whole.losses == (*alone[0].losses, *alone[1].losses)
    assert [len(curve) for curve in whole.losses] == [3, 5]
    assert whole.embedding.shape == (80, 4 + 6 + 3 * 16)
    assert whole.embedding.shape[1] == TWO.width(16)
    links = side.graph.adjacency.toarray() + np.eye(80)
    smooth = links / np.sqrt(np.outer(links.sum(axis=1), links.sum(axis=1)))
    x = unit(np.asarray(side.graph.attributes, dtype=np.float64))
    attributes = [1.5 / 3**0.5 * unit(rows) for rows in (x, smooth @ x, smooth @ smooth @ x)]
    first, second = (unit(fitted.embedding.numpy()) for fitted in alone)
    expected = np.hstack([first, 0.3 * second, *attributes])
    np.testing.assert_allclose(whole.embedding.numpy(), expected, atol=1e-5)


def test_a_cautious_member_weighs_less_where_positives_are_doubtful() -> None:
    side = side_of("nodes")
    task, options = NodeClassification(), FitOptions()
    bold, cautious = (EncoderConfig({"width": 4}, weight=0.6, trust_exponent=c) for c in (0.0, 2.0))
    recipe = FitConfig(
        min_probability=0.9, ensembles=(EnsembleConfig((bold, cautious), attributes=1.0),)
    )
    found = sample_positives(side.graph, task, recipe, options)
    assert 0.05 <= found.trust < 0.95
    plan = train_ensemble(side.graph, task, recipe, recipe.ensembles[0], found, options).ensemble
    assert [member.weight for member in plan.encoders] == [0.6, 0.6 * found.trust**2]
    # The trust is in the weight now: a second look must not apply it again.
    assert [member.trust_exponent for member in plan.encoders] == [0.0, 0.0]


def test_members_have_different_seeds_of_32_bits() -> None:
    seeds = [encoder_seed(seed, number) for seed in (0, 1, 2**32 - 1) for number in range(4)]
    assert len(set(seeds)) == len(seeds)
    assert all(0 <= seed < 2**32 for seed in seeds)
    assert [encoder_seed(seed, 0) for seed in (0, 7)] == [0, 7]


def test_members_that_are_alike_still_have_seeds_of_their_own() -> None:
    twins = EnsembleConfig((EncoderConfig({"width": 4}), EncoderConfig({"width": 4})))
    fitted = fit_task(side_of("nodes"), NodeClassification(), FitConfig(ensembles=(twins,))).fitted
    assert fitted.losses[0] != fitted.losses[1]
    assert not np.array_equal(fitted.embedding[:, :4], fitted.embedding[:, 4:])


@pytest.mark.parametrize("encoder", ["gcn", "gat"])
@pytest.mark.parametrize("task", [NodeClassification(), LinkPrediction()])
def test_the_embedding_is_what_the_joined_encoder_says(
    task: NodeClassification | LinkPrediction, encoder: str
) -> None:
    side = side_of(task.name)
    recipe = small_model(task.name, encoder).resolved_recipe()
    fitted = fit_task(side, task, recipe, FitOptions(encoder)).fitted
    assert not fitted.encoder.training
    with torch.no_grad():
        again = fitted.encoder(*encoder_inputs(side.graph, torch.device("cpu")))
    np.testing.assert_array_equal(fitted.embedding, again.numpy())
    assert fitted.embedding.shape == (80, fitted.ensemble.width(16))


def test_positives_too_unlikely_are_left_out_and_the_rest_is_trusted_less() -> None:
    side, task = side_of("nodes"), NodeClassification()
    members = (EncoderConfig({"width": 8}, TrainingConfig(epochs=2)),)
    recipe = FitConfig(positives=6, ensembles=(EnsembleConfig(members, attributes=1.0),))
    options = FitOptions(seed=3)
    everyone = sample_positives(side.graph, task, recipe, options)
    margins = everyone.sampler.positives(6).scores
    middle = 1 / (1 + np.exp(-np.median(margins)))
    strict = replace(recipe, min_probability=float(middle))
    found = sample_positives(side.graph, task, strict, options)
    kept = found.positives >= 0
    assert kept[:, 0].all()
    assert not kept.all()
    np.testing.assert_array_equal(found.positives[kept], everyone.positives[kept])
    assert margins[:, 1:][kept[:, 1:]].min() > margins[:, 1:][~kept[:, 1:]].max()
    # A node's best is kept in any case, but is trusted only if it is likely.
    likely = margins[np.isfinite(margins)] >= np.median(margins)
    share = likely.mean()
    assert (everyone.trust, found.trust) == (1.0, share)
    z = train_ensemble(side.graph, task, strict, strict.ensembles[0], found, options).embedding
    np.testing.assert_allclose(np.linalg.norm(z[:, :8], axis=1) ** 2, share, rtol=1e-5)


class ByAnother(NodeClassification):
    """Node classification that takes another's word for how good a head is."""

    def __init__(self, likes_less: bool) -> None:
        self.likes_less = likes_less
        self.widths: list[float] = []

    def cv_log_likelihood(self, head: LogisticHead) -> float:
        # The mean of the rows has the weight of the part that was learned.
        self.widths.append(float(np.linalg.norm(head.mean_[:8])))
        return -self.widths[-1] if self.likes_less else self.widths[-1]


@pytest.mark.parametrize("likes_less", [True, False])
def test_what_was_learned_is_doubted_where_the_head_does_better_with_less_of_it(
    likes_less: bool,
) -> None:
    side = side_of("nodes")
    members = (EncoderConfig({"width": 8}, TrainingConfig(epochs=2)),)
    recipe = FitConfig(
        positives=6, ensembles=(EnsembleConfig(members, attributes=1.0),), downweight=0.04
    )
    task = ByAnother(likes_less)
    fitted = fit_task(side, task, recipe, FitOptions(seed=3))
    sure = fit_task(side, task, replace(recipe, downweight=1.0), FitOptions(seed=3))
    assert min(task.widths) == pytest.approx(0.2 * max(task.widths), rel=1e-5)
    factor = 0.2 if likes_less else 1.0
    z, plain_z = fitted.fitted.embedding, sure.fitted.embedding
    np.testing.assert_allclose(z[:, :8], factor * plain_z[:, :8], rtol=1e-4, atol=1e-7)
    np.testing.assert_array_equal(z[:, 8:], plain_z[:, 8:])
    # Encoder, embedding and head belong together.
    assert not fitted.fitted.encoder.training
    assert float(fitted.fitted.encoder.trust) == pytest.approx(factor**2)
    with torch.no_grad():
        again = fitted.fitted.encoder(*encoder_inputs(side.graph, torch.device("cpu")))
    np.testing.assert_array_equal(z, again.numpy())
    mean = z[side.labelled].double().mean(dim=0)
    np.testing.assert_allclose(fitted.head.mean_, mean, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(("lead", "doubted"), [(0.9, True), (1.1, False), (float("nan"), False)])
def test_a_judge_that_may_have_seen_the_answers_must_be_clear(
    lead: float, doubted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = iter((lead * MIN_GAIN, 0.0))
    monkeypatch.setattr(NodeClassification, "cv_log_likelihood", lambda task, head: next(asked))
    members = (EncoderConfig({"width": 8}, TrainingConfig(epochs=2)),)
    recipe = FitConfig(
        positives=6, ensembles=(EnsembleConfig(members, attributes=1.0),), downweight=0.04
    )
    fitted = fit_task(side_of("nodes"), NodeClassification(), recipe).fitted
    assert float(fitted.encoder.trust) == pytest.approx(0.04 if doubted else 1.0)


def test_an_embedding_without_attributes_has_nothing_to_fall_back_on() -> None:
    recipe = FitConfig(
        ensembles=(EnsembleConfig((EncoderConfig({"width": 8}, TrainingConfig(epochs=2)),)),),
        downweight=0.04,
    )
    task = ByAnother(likes_less=True)
    fitted = fit_task(side_of("nodes"), task, recipe).fitted
    assert task.widths == []
    assert float(fitted.encoder.trust) == 1.0


class Planted(nn.Module):
    """An encoder whose embedding is known."""

    def __init__(self, rows: np.ndarray) -> None:
        super().__init__()
        self.rows = torch.from_numpy(rows.astype(np.float32))

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        return self.rows


@pytest.mark.parametrize("learned", ["the classes", "noise"])
def test_held_out_labels_tell_whether_something_was_learned(learned: str) -> None:
    """The classes beside attributes that are noise, or the other way round."""
    rng = np.random.default_rng(0)
    noise = rng.standard_normal((80, 60))
    useful = learned == "the classes"
    attributes = noise if useful else GRAPH.attributes
    graph = Graph.from_arrays(attributes, GRAPH.edges, GRAPH.labels)
    side, task = training_data(graph, small_split(graph, "nodes")), NodeClassification()
    recipe, options = narrow(task.named_recipe(FIXED_RULES, "gcn"), epochs=1), FitOptions()
    plan = replace(recipe.ensembles[0], attributes=1.0)
    found = sample_positives(side.graph, task, recipe, options)
    fitted = train_ensemble(side.graph, task, recipe, plan, found, options)
    rows = np.eye(3)[GRAPH.labels] + 0.1 * rng.standard_normal((80, 3)) if useful else noise
    encoder = EncoderEnsemble([Planted(rows)], [1.0 if useful else 3.0], attributes=1.0).eval()
    with torch.no_grad():
        z = encoder(*encoder_inputs(side.graph, options.device))
    planted = replace(fitted, encoder=encoder, embedding=z)
    settled = with_head(side, task, recipe, Selected(plan), planted, options).fitted
    assert float(settled.encoder.trust) == pytest.approx(1.0 if useful else recipe.downweight)


def pairs_of_linked_nodes(attributes: np.ndarray | None = None) -> Graph:
    return Graph.from_arrays(
        edges=[[0, 2, 4, 6, 8, 10], [1, 3, 5, 7, 9, 11]],
        labels=[0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 1, 1],
        attributes=attributes,
    )


@pytest.mark.parametrize("relation", ["link", "jaccard"])  # one candidate each, and none
def test_doubtful_positives_are_trusted_little_but_not_ignored(relation: str) -> None:
    graph = pairs_of_linked_nodes(np.eye(12))
    task, options = NodeClassification(), FitOptions(relations=[relation])
    members = (EncoderConfig({"width": 4}, TrainingConfig(epochs=1)),)
    recipe = FitConfig(
        positives=5, min_probability=1.0, ensembles=(EnsembleConfig(members, attributes=1.0),)
    )
    found = sample_positives(graph, task, recipe, options)
    assert found.trust == 0.2
    assert (found.positives[:, 0] >= 0).all() == (relation == "link")
    if relation == "link":
        z = train_ensemble(graph, task, recipe, recipe.ensembles[0], found, options).embedding
        np.testing.assert_allclose(np.linalg.norm(z[:, :4], axis=1) ** 2, 0.2, rtol=1e-5)


def test_without_attributes_trust_is_no_factor() -> None:
    graph = pairs_of_linked_nodes()
    task, options = NodeClassification(), FitOptions(relations=["link"])
    members = (EncoderConfig({"width": 4}, TrainingConfig(epochs=1)),) * 2
    recipe = FitConfig(
        positives=5, min_probability=1.0, ensembles=(EnsembleConfig(members, attributes=1.0),)
    )
    found = sample_positives(graph, task, recipe, options)
    z = train_ensemble(graph, task, recipe, recipe.ensembles[0], found, options).embedding
    np.testing.assert_allclose(np.linalg.norm(z[:, :4], axis=1), 1.0, rtol=1e-5)


def test_a_relation_that_no_counted_pair_is_above_for_counts_for_nodes_and_not_for_links() -> None:
    """Six labels say nothing of most relations; unlinked pairs are never above for Link."""
    few = training_data(GRAPH, NodeSplit(np.array([0, 1, 2, 3, 4, 5]), np.arange(6, 80), 0))
    nodes, links = NodeClassification(), LinkPrediction()
    for task, side, expected in ((nodes, few, True), (links, side_of("links"), False)):
        sampler = fit_sampler(side.graph, task, task.recipe("gcn"), FitOptions())
        unheard = [weight for weight in sampler.relation_weights_ if not weight.support]
        assert unheard
        assert all((weight.w1 > 0) == expected for weight in unheard)
