"""The contrastive losses of the paper: each one's positives, and that nothing else is its own."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest
import torch
from dense import all_rows
from small_runs import Recorder, narrow

from xtcl.baselines.method import XTCLGCN
from xtcl.config import EncoderConfig, FitConfig, SamplerConfig
from xtcl.errors import DataError, UsageError
from xtcl.graph.datasets.synthetic import block_model
from xtcl.graph.graph import Graph
from xtcl.graph.splits import node_split
from xtcl.lab.methods import contrastive as sscl
from xtcl.lab.methods.contrastive import SCL, SSCL, CeilingSCL, Contrastive, NaiveTCL, with_truth
from xtcl.progress import Progress
from xtcl.relations.registry import resolve_relations
from xtcl.relations.view import LABELS, TrainingView
from xtcl.tasks.fit import FitOptions, sample_positives
from xtcl.tasks.metrics import score_test_side
from xtcl.tasks.node_classification import NodeClassification
from xtcl.tasks.results import NodePredictions
from xtcl.tasks.training_data import TrainingData, training_data

CPU = torch.device("cpu")
RECIPE = narrow(NodeClassification().recipe("gcn"), 4)
# On so few nodes the 99th percentile would leave one node above; a recipe's last quantile counts.
MANY = FitConfig(sampler=SamplerConfig(quantiles=(0.3, 0.85)), positives=4000)
Listing = list[dict[int, float]]
"""For each node the chance with which a draw gives each of its positives."""


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


def table_of(method: Contrastive, side: TrainingData = TINY, seed: int = 0) -> np.ndarray:
    return method.positives(side, MANY, FitOptions(seed=seed, device=CPU))


def near(side: TrainingData) -> Listing:
    """From the formula: a relation that has somebody above, then somebody above."""
    view = TrainingView.of(side.graph, ())
    listing: Listing = []
    relations = [r for r in resolve_relations("paper") if LABELS not in r.reads]
    assert len(relations) == 7
    rows = [all_rows(relation, view) for relation in relations]
    for u in range(view.num_nodes):
        others = [v for v in range(view.num_nodes) if v != u]
        above = []
        for similarity in rows:
            eta = np.quantile(similarity[u, others], 0.85, method="higher")
            above.append([v for v in others if similarity[u, v] >= eta and similarity[u, v] > 0])
        there = [nodes for nodes in above if nodes]
        chances: dict[int, float] = {}
        for nodes in there:
            for v in nodes:
                chances[v] = chances.get(v, 0.0) + 1 / len(there) / len(nodes)
        listing.append(chances)
    return listing


def alike(labels: np.ndarray) -> Listing:
    """From the formula: any other node of the same known class."""
    listing: Listing = []
    for u, label in enumerate(labels):
        same = [v for v, other in enumerate(labels) if v != u and other == label >= 0]
        listing.append({v: 1 / len(same) for v in same})
    return listing


def labels_first(labels: np.ndarray, side: TrainingData) -> Listing:
    return [same or close for same, close in zip(alike(labels), near(side), strict=True)]


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        (SSCL(), near(TINY)),
        (SCL(), alike(TINY.labels)),
        (CeilingSCL(TRUTH), alike(TRUTH)),
        (NaiveTCL(), labels_first(TINY.labels, TINY)),
    ],
    ids=["sscl", "scl", "ceiling-scl", "naive-tcl"],
)
def test_positives_are_those_of_a_plain_listing(method: Contrastive, expected: Listing) -> None:
    table = table_of(method)
    assert table.shape == (30, 4000)
    for u, chances in enumerate(expected):
        drawn = Counter(table[u].tolist())
        if not chances:
            assert drawn == {-1: 4000}
            continue
        assert drawn.keys() == chances.keys()
        for v, chance in chances.items():
            error = (chance * (1 - chance) / 4000) ** 0.5
            assert abs(drawn[v] / 4000 - chance) <= 5 * error + 1e-9


def test_the_awkward_nodes_are_where_the_listing_says() -> None:
    # So that the test above cannot pass without them.
    assert not near(TINY)[29]
    assert near(TINY)[28]
    assert not alike(TINY.labels)[5]
    assert alike(TINY.labels)[0]
    assert (table_of(SCL())[12:] == -1).all()
    assert (table_of(NaiveTCL())[5] == table_of(SSCL())[5]).all()
    assert (table_of(NaiveTCL())[0] == table_of(SCL())[0]).all()


def test_draws_are_the_same_in_blocks_of_any_height(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = table_of(SSCL())
    monkeypatch.setattr(sscl, "rows_per_block", lambda num_nodes, device: 7)
    np.testing.assert_array_equal(table_of(SSCL()), whole)


def test_another_seed_draws_others() -> None:
    for method in (SSCL(), SCL(), CeilingSCL(TRUTH), NaiveTCL()):
        np.testing.assert_array_equal(table_of(method, seed=1), table_of(method, seed=1))
        assert (table_of(method, seed=1) != table_of(method, seed=2)).any()


def test_self_supervised_positives_know_no_label() -> None:
    other = TrainingData(TINY.graph.with_labels(np.roll(TINY.labels, 7)))
    np.testing.assert_array_equal(table_of(SSCL(), other), table_of(SSCL()))
    assert (table_of(SCL(), other) != table_of(SCL())).any()


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
    found = SSCL(recipe), SCL(recipe), CeilingSCL(truth, recipe), NaiveTCL(recipe)
    return {method.name: method for method in found}


def fitted(method: Contrastive | XTCLGCN, side: TrainingData, seed: int = 0) -> NodePredictions:
    answer = method.fit(side, "nodes", seed=seed, device=CPU, progress=Progress())
    assert isinstance(answer, NodePredictions)
    return answer


class Borrowed(Contrastive):
    """XTCL's own positives."""

    name: ClassVar[str] = "borrowed"
    title: ClassVar[str] = "Borrowed"

    def positives(self, side: TrainingData, recipe: FitConfig, options: FitOptions) -> np.ndarray:
        options = FitOptions(seed=options.seed, device=options.device)
        return sample_positives(side.graph, NodeClassification(), recipe, options).positives


def test_with_the_positives_of_xtcl_it_is_xtcl_to_the_byte() -> None:
    side = training_data(FAINT, SPLIT)
    everyone = replace(RECIPE, min_probability=0.0)  # then XTCL trusts its positives in full, too
    expected = fitted(XTCLGCN(everyone), side, 4).probabilities
    assert fitted(Borrowed(everyone), side, 4).probabilities.tobytes() == expected.tobytes()


def test_without_a_recipe_it_is_that_of_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    side = training_data(FAINT, SPLIT)
    expected = fitted(SCL(RECIPE), side).probabilities
    monkeypatch.setattr(NodeClassification, "recipe", lambda _, encoder: RECIPE)
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
    with pytest.raises(DataError, match="contradict those of graph 'tiny'"):
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
    with pytest.raises(DataError, match="SCL finds no positive for any node of graph 'tiny'"):
        fitted(SCL(RECIPE), TrainingData(TINY.graph.with_labels(lonely)))


@pytest.mark.parametrize("name", methods(None))
def test_a_graph_without_labels_is_refused(name: str) -> None:
    bare = TrainingData(replace(TINY.graph, labels=None, classes=()))
    with pytest.raises(DataError, match="has no labels"):
        fitted(methods(TRUTH)[name], bare)


def test_progress_says_whose_training_it_is() -> None:
    recorder = Recorder()
    NaiveTCL(RECIPE).fit(TINY, "nodes", seed=0, device=CPU, progress=recorder)
    assert recorder.names == ["finding positives", "training Naive TCL", "training Naive TCL"]
    assert [sum(done) for _, _, done in recorder.stages] == [30, 4, 4]


def test_only_the_ceiling_is_handed_the_true_labels() -> None:
    graph = block_model(40, num_classes=2, num_attributes=10, mean_degree=6)
    ceiling = with_truth(CeilingSCL(), graph)
    assert isinstance(ceiling, CeilingSCL)
    assert ceiling.truth is graph.labels
    other = SCL()
    assert with_truth(other, graph) is other
