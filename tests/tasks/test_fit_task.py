"""A whole fit: what each task feeds to the sampler, the training and the head."""

from __future__ import annotations

import numpy as np
import pytest
from small_runs import COUNTING, FINDING, TRAINING, Recorder, small_graph, small_model, small_split

from xtcl.graph.link_split import LinkSplit
from xtcl.graph.node_split import NodeSplit
from xtcl.relations.view import TrainingView
from xtcl.tasks.answers import LinkAnswer, NodeAnswer
from xtcl.tasks.fit import fit_task
from xtcl.tasks.link_prediction import LinkPrediction
from xtcl.tasks.logistic_head import LogisticHead, fit_logistic
from xtcl.tasks.node_classification import NodeClassification
from xtcl.tasks.pipeline import FitOptions, fit_embedding, fit_sampler
from xtcl.tasks.recipe import Recipe
from xtcl.tasks.training_side import TrainingSide, training_side

GRAPH = small_graph()


def side_of(task: str) -> TrainingSide:
    return training_side(GRAPH, small_split(GRAPH, task))


def recipe_of(task: str) -> Recipe:
    return small_model(task).resolved_recipe()


def test_nodes_end_in_logistic_regression_on_the_training_labels() -> None:
    side = side_of("nodes")
    fitted = fit_task(side, NodeClassification(), recipe_of("nodes"), FitOptions(seed=5))
    z = fitted.fitted.embedding
    assert isinstance(fitted.head, LogisticHead)
    expected = fit_logistic(z[side.labelled], side.labels[side.labelled], seed=5)
    np.testing.assert_array_equal(fitted.head.coef_, expected.coef_)
    assert isinstance(fitted.answer, NodeAnswer)
    np.testing.assert_array_equal(fitted.answer.probabilities, expected.predict_proba(z, 3))


def test_links_fit_twice_and_the_second_time_on_fewer_links() -> None:
    heard = Recorder()
    side = side_of("links")
    fitted = fit_task(side, LinkPrediction(), recipe_of("links"), FitOptions(progress=heard))
    assert heard.names == [COUNTING, FINDING, TRAINING] * 2
    assert isinstance(fitted.answer, LinkAnswer)
    np.testing.assert_array_equal(
        fitted.answer.score(side.negatives),
        fitted.head.score(fitted.fitted.embedding, side.negatives),
    )


@pytest.mark.parametrize("task", [NodeClassification(), LinkPrediction()])
def test_positives_are_never_the_node_itself_nor_excluded(
    task: NodeClassification | LinkPrediction,
) -> None:
    side = side_of(task.name)
    found = fit_embedding(side.graph, task, recipe_of(task.name), FitOptions()).positives
    assert found.shape == (80, recipe_of(task.name).positives)
    for node, row in enumerate(found):
        named = row[row >= 0].tolist()
        assert node not in named
        assert len(set(named)) == len(named)
    linked = side.graph.adjacency.toarray() > 0
    pairs = [(u, v) for u, row in enumerate(found.tolist()) for v in row if v >= 0]
    assert any(linked[pair] for pair in pairs) is (task.name == "nodes")


def test_link_training_draws_known_links_and_weighs_candidates() -> None:
    side = side_of("links")
    recipe = LinkPrediction().recipe("gcn")
    view = TrainingView.of(side.graph)
    table = np.tile(np.arange(10), (80, 1))
    links, candidates = LinkPrediction().sources(view, table, recipe)
    assert (links.draws, links.weight) == (recipe.link_draws, 1.0)
    assert (candidates.draws, candidates.weight) == (recipe.draws, recipe.candidate_weight)
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
    assert (source.draws, source.weight) == (recipe.draws, 1.0)


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
def test_default_recipes_make_encoders(encoder: str) -> None:
    for task, width in ((NodeClassification(), 1024), (LinkPrediction(), 512)):
        options = task.recipe(encoder).encoder_options
        assert options.get("width") == (None if encoder == "own" else width)
        assert ("hops" in options) is (task.name == "links" and encoder == "gcn")


def test_without_a_recipe_the_task_s_own_is_used() -> None:
    side = side_of("nodes")
    default = fit_task(side, NodeClassification())
    named = fit_task(side, NodeClassification(), NodeClassification().recipe("gcn"), FitOptions())
    assert default.fitted.embedding.shape == (80, 1024)
    np.testing.assert_array_equal(default.fitted.embedding, named.fitted.embedding)
