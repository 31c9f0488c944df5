"""The contrastive losses of the paper: each one's positives, and that nothing else is its own."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest
import torch
from small_runs import Recorder, narrow, shrink_recipes

from xtcl.baselines.contrastive import SSCL, Contrastive
from xtcl.baselines.method import XTCLGCN
from xtcl.config import FIXED_RULES, EncoderConfig, FitConfig
from xtcl.errors import DataError, UsageError
from xtcl.estimator import XTCL
from xtcl.graph.datasets.synthetic import block_model
from xtcl.graph.graph import Graph
from xtcl.graph.splits import node_split
from xtcl.lab.methods.contrastive import SCL, CeilingSCL, NaiveTCL, SSCLAll, with_truth
from xtcl.progress import Progress
from xtcl.tasks.metrics import score_test_side
from xtcl.tasks.node_classification import NodeClassification
from xtcl.tasks.results import NodePredictions
from xtcl.tasks.training_data import TrainingData, training_data

CPU = torch.device("cpu")
RECIPE = narrow(NodeClassification().named_recipe(FIXED_RULES, "gcn"), 4)


def tiny() -> TrainingData:
    """Thirty nodes: 28 is linked to nobody, 29 has no attributes either.

    Some have labels, and 5 is the only one with its own.
    """
    planted = block_model(30, num_classes=3, num_attributes=12, mean_degree=4, seed=1)
    assert planted.labels is not None
    attributes, labels = np.array(planted.attributes), np.array(planted.labels)
    attributes[29] = 0.0
    labels[12:] = -1
    labels[5] = 3
    linked = planted.edges[:, (planted.edges < 28).all(axis=0)]
    return TrainingData(Graph.from_arrays(attributes, linked, labels, name="tiny"))


TINY = tiny()
TRUTH = np.where(TINY.labels >= 0, TINY.labels, np.arange(30) % 3)


# Neither links nor attributes say much, and there is room to learn what positives say.
FAINT = block_model(
    240,
    num_classes=3,
    num_attributes=300,
    mean_degree=5,
    homophily=0.6,
    attribute_signal=0.6,
    seed=2,
)
SPLIT = node_split(FAINT, 0.2, seed=0)


def methods(truth: np.ndarray | None, recipe: FitConfig = RECIPE) -> dict[str, Contrastive]:
    found: list[Contrastive] = [SSCL(recipe), SSCLAll(recipe), SCL(recipe), NaiveTCL(recipe)]
    found.append(CeilingSCL(truth, recipe))
    return {method.name: method for method in found}


def fitted(method: Contrastive | XTCLGCN, side: TrainingData, seed: int = 0) -> NodePredictions:
    answer = method.fit(side, "nodes", seed=seed, device=CPU, progress=Progress())
    assert isinstance(answer, NodePredictions)
    return answer


class Learned(Contrastive):
    """XTCL's own positives."""

    name: ClassVar[str] = "borrowed"
    title: ClassVar[str] = "Borrowed"
    positives: ClassVar[str] = "learned"


def test_with_the_positives_of_xtcl_it_is_xtcl_to_the_byte() -> None:
    side = training_data(FAINT, SPLIT)
    expected = fitted(XTCLGCN(RECIPE), side, 4).probabilities
    assert fitted(Learned(RECIPE), side, 4).probabilities.tobytes() == expected.tobytes()


def test_they_are_the_estimator_with_a_strategy() -> None:
    side = training_data(FAINT, SPLIT)
    for name, strategy in (("sscl", "uniform"), ("scl", "same-label"), ("naive-tcl", "naive")):
        expected = fitted(methods(None)[name], side, 3).probabilities
        model = XTCL(recipe=RECIPE, positives=strategy, random_state=3, device="cpu")
        found = model.fit(FAINT, SPLIT).predict_proba()
        assert found.tobytes() == expected.tobytes()


def test_without_a_recipe_it_is_that_of_the_fixed_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    side = training_data(FAINT, SPLIT)
    expected = fitted(SCL(RECIPE), side).probabilities
    shrink_recipes(monkeypatch, 4, [NodeClassification])
    assert SCL().recipe_for("nodes") == SCL(RECIPE).recipe_for("nodes")
    np.testing.assert_array_equal(fitted(SCL(), side).probabilities, expected)


@pytest.mark.slow
def test_all_beat_chance_and_the_ceiling_beats_the_others() -> None:
    def quick(member: EncoderConfig) -> EncoderConfig:
        training = replace(member.training, epochs=12, learning_rate=5e-3)
        return replace(member, encoder=member.encoder | {"width": 64}, training=training)

    side = training_data(FAINT, SPLIT)
    figures = {
        name: score_test_side(fitted(method, side), FAINT, SPLIT)["accuracy"]
        for name, method in methods(FAINT.labels, RECIPE.map_encoders(quick)).items()
    }
    ceiling = figures.pop("ceiling-scl")
    assert min(figures.values()) > 0.7  # chance: 0.33
    assert ceiling > max(figures.values()) + 0.08


@pytest.mark.slow
@pytest.mark.parametrize("name", methods(None))
def test_same_seed_gives_same_bytes(name: str) -> None:
    side = training_data(FAINT, SPLIT)
    method = methods(FAINT.labels)[name]
    first = fitted(method, side, 5).probabilities
    np.testing.assert_allclose(first.sum(axis=1), 1.0)
    with torch.random.fork_rng():
        torch.manual_seed(99)
        assert fitted(method, side, 5).probabilities.tobytes() == first.tobytes()
    assert not np.array_equal(fitted(method, side, 6).probabilities, first)


@pytest.mark.slow
def test_the_ceiling_alone_learns_from_other_labels_than_those_of_the_training_side() -> None:
    shuffled = np.where(TINY.labels >= 0, TINY.labels, np.arange(30) // 10)
    for name, method in methods(TRUTH).items():
        other = methods(shuffled)[name]
        same = np.array_equal(fitted(method, TINY).probabilities, fitted(other, TINY).probabilities)
        assert same == (name != "ceiling-scl")


def test_the_ceiling_refuses_to_guess_the_truth() -> None:
    with pytest.raises(UsageError, match="needs the true labels of all nodes, which no fit"):
        fitted(CeilingSCL(), TINY)


@pytest.mark.parametrize("truth", [TRUTH[:-1], np.roll(TRUTH, 1)], ids=["short", "contradicting"])
def test_the_ceiling_refuses_the_truth_of_another_graph(truth: np.ndarray) -> None:
    with pytest.raises(DataError, match="contradict those of the training data"):
        fitted(CeilingSCL(truth), TINY)


@pytest.mark.parametrize("name", methods(None))
def test_awkward_graphs_are_answered(name: str) -> None:
    method = methods(TRUTH)[name]
    assert fitted(method, TINY).probabilities.shape == (30, 4)
    bare = Graph.from_arrays(None, TINY.graph.edges, TINY.labels, num_nodes=30)
    assert np.isfinite(fitted(method, TrainingData(bare)).probabilities).all()
    unlinked = TrainingData(TINY.graph.with_edges(np.zeros((2, 0), np.int64)))
    assert np.isfinite(fitted(method, unlinked).probabilities).all()


def test_labels_without_a_pair_are_nothing_to_contrast() -> None:
    lonely = np.full(30, -1)
    lonely[[0, 1, 2]] = [0, 1, 2]
    with pytest.raises(
        DataError, match="'same-label' finds no positive for any node of graph 'tiny'"
    ):
        fitted(SCL(RECIPE), TrainingData(TINY.graph.with_labels(lonely)))


@pytest.mark.parametrize("name", methods(None))
def test_a_graph_without_labels_is_refused(name: str) -> None:
    bare = TrainingData(replace(TINY.graph, labels=None, classes=()))
    with pytest.raises(DataError, match="has no labels"):
        fitted(methods(TRUTH)[name], bare)


def test_progress_says_whose_training_it_is() -> None:
    recorder = Recorder()
    NaiveTCL(RECIPE).fit(TINY, "nodes", seed=0, device=CPU, progress=recorder)
    own = ["training Naive TCL", "training Naive TCL"]
    assert recorder.names == ["learning which relations matter", "finding positives", *own]
    assert [sum(done) for _, _, done in recorder.stages] == [5, 30, 4, 4]


def test_only_the_ceiling_is_handed_the_true_labels() -> None:
    graph = block_model(40, num_classes=2, num_attributes=10, mean_degree=6)
    ceiling = with_truth(CeilingSCL(), graph)
    assert isinstance(ceiling, CeilingSCL)
    assert ceiling.truth is graph.labels
    other = SCL()
    assert with_truth(other, graph) is other
