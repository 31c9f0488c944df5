"""What hidden labels choose, against the formulas with loops and another solver."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score, f1_score
from small_blends import (
    by_hand,
    choice_of,
    hidden_recipe,
    linear_scores,
    made_up,
    mixed_by_hand,
    rows_of,
    shrink_hidden_recipe,
    training_graph,
)
from small_blends import member as blend_member
from small_runs import small_graph, small_split

from xtcl.config import FIXED_RULES, HIDDEN_LABELS, NODE_HEADS, QUICK, EnsembleConfig, FitConfig
from xtcl.errors import UsageError
from xtcl.estimator import XTCL
from xtcl.graph.datasets.synthetic import block_model
from xtcl.graph.graph import Graph
from xtcl.graph.splits import NodeSplit, node_split
from xtcl.nn.gcn import GCNEncoder
from xtcl.relations.store.relation_store import RelationStore
from xtcl.report.facts import RunFacts
from xtcl.sampling.likely_graph import find_likely_links
from xtcl.sampling.strategies import PositiveSource, PositiveStrategy, PositiveTable, make_strategy
from xtcl.tasks import hidden_labels as module
from xtcl.tasks import sampled_positives, self_training
from xtcl.tasks.blend import (
    ATTRIBUTE_BLOCKS,
    LEARNED,
    BlendedHead,
    LinearMember,
    TreesMember,
    column_blocks,
)
from xtcl.tasks.fit import Trial, encoder_seed, fit_task
from xtcl.tasks.fit_options import FitOptions
from xtcl.tasks.hidden_labels import (
    BALANCED_METRICS,
    CLASS_METRICS,
    CLASS_POWERS,
    blend_weights,
    candidates,
    choose_by_hidden_labels,
    class_factors,
    class_weights,
    fit_blend,
    logistic_at,
    mixture_weights,
    pooled_choice,
    prior_labels,
    ranges_of,
)
from xtcl.tasks.logistic import (
    C_VALUES,
    CV_TOLERANCE,
    INVERSE_TEMPERATURES,
    Floats,
    LogisticHead,
    logistic_path,
    stratified_folds,
)
from xtcl.tasks.metrics import METRICS
from xtcl.tasks.node_classification import NodeClassification
from xtcl.tasks.results import FittedEmbedding, NodePredictions
from xtcl.tasks.sampled_positives import fit_sampler
from xtcl.tasks.self_training import SELF_TRAINING_THRESHOLD
from xtcl.tasks.task import Selected
from xtcl.tasks.training_data import TrainingData, training_data
from xtcl.training.checkpoint import Checkpoints
from xtcl.training.trainer import train

MIN_WEIGHT = module._MIN_WEIGHT


def likelihoods(count: int, labels: int, seed: int, spread: float = 0.7) -> Floats:
    """Log-likelihoods [M, n] of candidates of unequal worth that err on different labels."""
    rng = np.random.default_rng(seed)
    means = np.linspace(1.5, 0.5, count)[:, None]
    scores = rng.normal(means, 2 * spread, (count, labels))
    return np.asarray(-np.log1p(np.exp(-scores)))


# The mixture.


def priors(count: int, seed: int) -> Floats:
    """A prior [M] of five labels, unequally shared."""
    return np.asarray(5 * np.random.default_rng([seed, 1]).dirichlet(np.full(count, 3.0)))


def weights_of_labels(labels: int, seed: int) -> Floats:
    """How much each label [n] counts, 1 on average."""
    found = np.random.default_rng([seed, 2]).uniform(0.2, 3.0, labels)
    return np.asarray(found / found.mean())


def mixed(given_: Floats, prior: Floats | None = None) -> Floats:
    """`mixture_weights` of labels that count the same; the usual prior is equal."""
    count, labels = given_.shape
    prior = np.full(count, 5 / count) if prior is None else prior
    return mixture_weights(given_, prior, np.ones(labels))


def objective(w: Floats, given_: Floats, prior: Floats, a: Floats) -> float:
    """What is printed at the top of the module, label by label and candidate by candidate."""
    total = 0.0
    for u in range(given_.shape[1]):
        total += a[u] * np.log(sum(w[m] * np.exp(given_[m, u]) for m in range(len(w))))
    return float(total + sum(prior[m] * np.log(w[m]) for m in range(len(w))))


@pytest.mark.parametrize(("count", "labels"), [(2, 1), (2, 40), (3, 5), (4, 60), (6, 25)])
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("same", [True, False])
def test_mixture_weights_maximise_the_objective(
    count: int, labels: int, seed: int, same: bool
) -> None:
    given_ = likelihoods(count, labels, seed)
    prior = np.full(count, 5 / count) if same else priors(count, seed)
    a = np.ones(labels) if same else weights_of_labels(labels, seed)

    def loss(free: Floats) -> float:
        return -objective(softmax(np.append(free, 0.0)), given_, prior, a)

    best = minimize(loss, np.zeros(count - 1), method="BFGS", options={"gtol": 1e-7})
    found = mixture_weights(given_, prior, a)
    assert (found > 0).all()
    assert found.sum() == pytest.approx(1)
    assert objective(found, given_, prior, a) == pytest.approx(-best.fun, abs=1e-6)
    np.testing.assert_allclose(found, softmax(np.append(best.x, 0.0)), atol=1e-3)


def test_a_simplex_grid_has_no_better_weights() -> None:
    given_, prior, a = likelihoods(3, 30, seed=5), priors(3, 5), weights_of_labels(30, 5)
    found = objective(mixture_weights(given_, prior, a), given_, prior, a)
    steps = np.linspace(0.01, 0.98, 40)
    for first in steps:
        for second in steps[first + steps < 0.995]:
            w = np.array([first, second, 1 - first - second])
            assert objective(w, given_, prior, a) <= found + 1e-9


def test_a_label_counts_as_often_as_its_weight_says() -> None:
    given_, prior = likelihoods(3, 12, seed=3), priors(3, 3)
    times = np.array([1, 2, 3] * 4)
    repeated = np.repeat(given_, times, axis=1)
    found = mixture_weights(given_, prior, times.astype(np.float64))
    np.testing.assert_allclose(found, mixed(repeated, prior), atol=1e-6)
    assert np.abs(found - mixed(given_, prior)).max() > 1e-3


def test_equal_candidates_have_the_weights_of_the_prior_and_small_numbers_do_not_vanish() -> None:
    one = likelihoods(1, 20, seed=0)
    equal = np.repeat(one, 4, axis=0)
    np.testing.assert_allclose(mixed(equal), 0.25)
    np.testing.assert_allclose(mixed(one), 1.0)
    np.testing.assert_allclose(mixed(equal, priors(4, 0)), priors(4, 0) / 5, atol=1e-5)
    far = likelihoods(3, 20, seed=1)
    np.testing.assert_allclose(mixed(far - 2000.0), mixed(far), atol=1e-9)


# The prior, and what is too little.


SAFE = (
    blend_member("logistic", ("learned", "uniform", "likely", *ATTRIBUTE_BLOCKS), 0.0),
    blend_member("logistic", ("uniform",), 0.0),
)
OTHERS = (
    blend_member("logistic", ATTRIBUTE_BLOCKS, 0.0),
    blend_member("logistic", ATTRIBUTE_BLOCKS[:1], 0.0),
    blend_member("trees", ("learned", "uniform"), 0.0),
)


def test_the_prior_counts_as_five_labels_and_encoders_ten_times_as_much() -> None:
    found = prior_labels((*SAFE, *OTHERS))
    assert found.sum() == pytest.approx(5)
    np.testing.assert_allclose(found, 5 * np.array([10, 10, 1, 1, 1]) / 23)
    np.testing.assert_allclose(prior_labels((OTHERS[2], SAFE[1])), [5 / 11, 50 / 11])
    # Of one kind alone they are equal.
    np.testing.assert_allclose(prior_labels(SAFE), 2.5)
    np.testing.assert_allclose(prior_labels(OTHERS), 5 / 3)
    np.testing.assert_allclose(prior_labels(OTHERS[:1]), 5)


@given(
    seed=st.integers(0, 9999),
    count=st.integers(1, 6),
    labels=st.integers(1, 60),
    spread=st.sampled_from((0.01, 0.2, 0.7, 2.0)),
)
def test_small_weights_are_none_and_the_others_sum_to_one(
    seed: int, count: int, labels: int, spread: float
) -> None:
    given_, prior = likelihoods(count, labels, seed, spread), priors(count, seed)
    a = weights_of_labels(labels, seed)
    likeliest = mixture_weights(given_, prior, a).tolist()
    total = sum(w for w in likeliest if w >= MIN_WEIGHT)
    expected = [w / total if w >= MIN_WEIGHT else 0.0 for w in likeliest]
    np.testing.assert_allclose(blend_weights(given_, prior, a), expected, atol=1e-12)


def test_a_weight_below_the_least_one_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    given_ = likelihoods(3, 50, seed=0)
    small = np.array([0.7, 0.3 - 0.9 * MIN_WEIGHT, 0.9 * MIN_WEIGHT])
    monkeypatch.setattr(module, "mixture_weights", lambda *_: small)
    found = blend_weights(given_, np.ones(3), np.ones(50))
    np.testing.assert_allclose(found, [*(small[:2] / small[:2].sum()), 0.0])


def test_with_hardly_a_label_encoders_predict_and_with_many_what_is_likelier() -> None:
    prior = prior_labels((SAFE[0], OTHERS[0]))
    for labels, first in ((1, True), (300, False)):
        given_ = np.log(np.array([[0.5], [0.9]])) * np.ones(labels)
        found = blend_weights(given_, prior, np.ones(labels))
        assert bool(found[0] > 0.7) is first
        assert bool(found[1] > 0.9) is not first


def test_a_mixture_of_candidates_that_know_different_labels() -> None:
    """Two candidates that each know half of the labels, and the third neither."""
    rng = np.random.default_rng(0)
    half = np.arange(200) % 2 == 0
    given_ = np.log(
        np.stack([np.where(half, 0.9, 0.3), np.where(half, 0.35, 0.9), np.full(200, 1e-3)])
    )
    given_ += 0.01 * rng.normal(size=given_.shape)
    found = blend_weights(given_, np.full(3, 5 / 3), np.ones(200))
    assert found[2] == 0
    assert 0 < mixed(given_)[2] < MIN_WEIGHT
    assert 0.35 < found[0] < 0.65
    # Where labels of the first half weigh more, so does the candidate that knows them.
    heavy = blend_weights(given_, np.full(3, 5 / 3), np.where(half, 1.8, 0.2))
    assert heavy[0] > found[0] + 0.2


# Metrics that count all classes alike.


@given(st.lists(st.integers(0, 4), min_size=1, max_size=40))
def test_with_class_weights_every_class_counts_the_same(drawn: list[int]) -> None:
    codes = np.array(drawn)
    found = class_weights(codes)
    assert found.mean() == pytest.approx(1)
    classes = sorted(set(drawn))
    for code in classes:
        assert found[codes == code].sum() == pytest.approx(len(drawn) / len(classes))
        assert len(set(found[codes == code].tolist())) == 1


def factors_by_hand(table: Floats, codes: list[int], metric: str) -> list[float]:
    """Each power in turn; the smallest of those with which the labels score best."""
    classes = range(table.shape[1])
    share = [codes.count(c) / len(codes) for c in classes]
    best: tuple[float, list[float]] = (-1.0, [])
    for power in sorted(CLASS_POWERS):
        factors = [pi**-power if pi else 1.0 for pi in share]
        predicted = (table * factors).argmax(axis=1)
        if metric == "macro_f1":
            score = f1_score(codes, predicted, average="macro")
        else:
            score = balanced_accuracy_score(codes, predicted)
        if score > best[0] + 1e-12:
            best = float(score), factors
    return best[1]


def imbalanced(labels: int, seed: int) -> tuple[Floats, np.ndarray]:
    """Probabilities [n, 3] that favour a frequent class, and codes."""
    rng = np.random.default_rng(seed)
    codes = np.concatenate([np.arange(3), rng.choice(3, labels, p=[0.75, 0.15, 0.1])])
    scores = np.eye(3)[codes] + np.array([1.0, 0.0, -0.2]) + 0.8 * rng.normal(size=(len(codes), 3))
    return softmax(scores, axis=1), codes


@pytest.mark.parametrize("metric", CLASS_METRICS)
def test_class_factors_are_those_with_which_the_labels_score_best(metric: str) -> None:
    powers = set()
    for seed in range(12):
        table, codes = imbalanced(50, seed)
        found = class_factors(table, codes, metric)
        np.testing.assert_allclose(found, factors_by_hand(table, codes.tolist(), metric))
        powers.add(round(float(-np.log(found[0]) / np.log((codes == 0).mean())), 6))
    assert len(powers) > 2


@pytest.mark.parametrize("metric", CLASS_METRICS)
def test_a_class_without_a_hidden_label_has_the_factor_of_the_rarest(metric: str) -> None:
    table, codes = imbalanced(50, 0)
    wide = np.hstack([table[:, :2], np.zeros((len(table), 1)), table[:, 2:]])
    found = class_factors(wide, np.where(codes == 2, 3, codes), metric)
    assert found[2] == np.delete(found, 2).max()
    np.testing.assert_allclose(np.delete(found, 2), class_factors(table, codes, metric))


@pytest.mark.parametrize("metric", sorted(set(METRICS["nodes"]) - set(CLASS_METRICS)))
def test_other_metrics_have_no_class_factors(metric: str) -> None:
    table, codes = imbalanced(50, 0)
    np.testing.assert_array_equal(class_factors(table, codes, metric), [1, 1, 1])


def test_of_equal_powers_the_smallest_is_taken() -> None:
    codes = np.array([0, 0, 0, 1])
    sure = np.eye(2)[codes] * 0.98 + 0.01
    for metric in CLASS_METRICS:
        np.testing.assert_array_equal(class_factors(sure, codes, metric), [1, 1])


def test_metrics_of_both_kinds_are_metrics_of_nodes() -> None:
    assert set(CLASS_METRICS) < set(BALANCED_METRICS) < set(METRICS["nodes"])
    assert {"accuracy", "log_loss"} == set(METRICS["nodes"]) - set(BALANCED_METRICS)
    assert FitConfig().metric in METRICS["nodes"]


# C and calibration.


@pytest.mark.parametrize("Cs", [(1.0,), (0.5, 2.0, 8.0), C_VALUES])
@pytest.mark.parametrize("classes", [2, 4])
def test_pooled_choice(Cs: Sequence[float], classes: int) -> None:
    rng = np.random.default_rng(len(Cs) + classes)
    n = 23
    codes = rng.integers(0, classes, n)
    truth = np.eye(classes)[codes]
    sizes = np.linspace(0.3, 2.0, len(Cs))[:, None, None]
    scores = sizes * (1.5 * truth + rng.normal(size=(len(Cs), n, classes)))

    def mean_log(factor: float, of: Floats, target: Floats) -> float:
        return float((target * log_softmax(factor * of, axis=1)).sum(axis=1).mean())

    likelihood = [max(mean_log(t, each, truth) for t in INVERSE_TEMPERATURES) for each in scores]
    # Platt: to the n rows of each row's class one more of every class.
    target = (n * truth + 1) / (n + classes)
    factors = [
        max(INVERSE_TEMPERATURES, key=lambda t, each=each: mean_log(t, each, target))  # type: ignore[misc]
        for each in scores
    ]
    posterior = softmax(n * np.array(likelihood))
    best = int(np.argmax(likelihood))

    C, factor, logs = pooled_choice(torch.from_numpy(scores), codes, Cs)
    assert pytest.approx(np.exp(posterior @ np.log(Cs))) == C
    assert factor == pytest.approx(np.exp(posterior @ np.log(factors)))
    np.testing.assert_allclose(logs, log_softmax(factors[best] * scores[best], axis=1), atol=1e-12)


def test_a_head_for_a_known_c_and_temperature() -> None:
    graph = training_graph()
    known = TrainingData(graph).labelled
    rows = made_up(graph).embedding[known]
    labels = TrainingData(graph).known_labels
    head = logistic_at(rows, labels, 2.5, 0.7)
    z = rows.numpy().astype(np.float64)
    centred = z - z.mean(axis=0)
    unit = centred / np.linalg.norm(centred, axis=1, keepdims=True)
    model = LogisticRegression(C=2.5, tol=1e-10, max_iter=10_000).fit(unit, labels)
    expected = softmax(0.7 * model.decision_function(unit), axis=1)
    np.testing.assert_allclose(head.predict_proba(rows), expected, atol=1e-6)


# What is compared.

BLOCKS_OF = {
    "all": ("learned", "uniform", "likely", *ATTRIBUTE_BLOCKS),
    "no attributes": ("learned", "uniform", "likely"),
    "no likely links": ("learned", "uniform", *ATTRIBUTE_BLOCKS),
    "no uniform positives": ("learned", "likely", *ATTRIBUTE_BLOCKS),
    "uniform positives alone": ("uniform", *ATTRIBUTE_BLOCKS),
    "one encoder": ("learned",),
    "likely links alone": ("likely", *ATTRIBUTE_BLOCKS),
    "likely links and nothing else": ("likely",),
    "a strategy of another name": ("same-label", "learned+uniform", *ATTRIBUTE_BLOCKS),
}


@pytest.mark.parametrize("heads", [("logistic", "trees"), ("logistic",), ("trees",)])
@pytest.mark.parametrize("kept", BLOCKS_OF)
def test_candidates_read_what_there_is(kept: str, heads: tuple[str, ...]) -> None:
    names = BLOCKS_OF[kept]
    found = candidates(dict.fromkeys(names, ((0, 1),)), heads)
    assert {each.kind for each in found} == set(heads)
    read = [(each.kind, frozenset(each.blocks)) for each in found]
    assert all(blocks and blocks <= set(names) for _, blocks in read)
    assert len({each.name for each in found}) == len(found)
    assert all(each.name.strip() for each in found)
    encoders = [name for name in names if name not in ATTRIBUTE_BLOCKS]
    if "trees" in heads:
        assert read.count(("trees", frozenset(encoders))) == 1
    if "logistic" in heads:
        # The first encoders alone, and with each of the others.
        kept_attributes = set(names) - set(encoders)
        expected = [{encoders[0], other} | kept_attributes for other in encoders]
        logistic = [
            blocks for kind, blocks in read if kind == "logistic" and set(encoders) & blocks
        ]
        assert sorted(map(sorted, logistic)) == sorted(map(sorted, expected))
        alone = [blocks for kind, blocks in read if blocks <= set(ATTRIBUTE_BLOCKS)]
        assert bool(alone) is (ATTRIBUTE_BLOCKS[0] in names)


def test_without_attributes_only_encoders_are_compared() -> None:
    found = candidates(dict.fromkeys(BLOCKS_OF["no attributes"], ((0, 1),)), NODE_HEADS)
    encoders = ("learned", "uniform", "likely")
    assert [tuple(each) for each in found] == [
        ("encoders on learned and uniform positives", "logistic", encoders[:2]),
        ("encoders on learned positives and likely links", "logistic", encoders[::2]),
        ("encoders on learned positives", "logistic", encoders[:1]),
        ("boosted trees", "trees", encoders),
    ]


def test_the_default_compares_six_heads() -> None:
    plan = hidden_recipe().ensembles[0]
    blocks = column_blocks(plan, [8] * len(plan.encoders), 16)
    found = candidates(blocks, NODE_HEADS)
    assert [tuple(each) for each in found] == [
        (
            "encoders on uniform and learned positives",
            "logistic",
            ("uniform", LEARNED, *ATTRIBUTE_BLOCKS),
        ),
        (
            "encoders on uniform positives and likely links",
            "logistic",
            ("uniform", "likely", *ATTRIBUTE_BLOCKS),
        ),
        ("encoders on uniform positives", "logistic", ("uniform", *ATTRIBUTE_BLOCKS)),
        ("smoothed attributes", "logistic", ATTRIBUTE_BLOCKS),
        ("attributes alone", "logistic", ATTRIBUTE_BLOCKS[:1]),
        ("boosted trees", "trees", ("uniform", LEARNED, "likely")),
    ]


def test_with_likely_links_alone_nothing_else_is_read() -> None:
    found = candidates(dict.fromkeys(BLOCKS_OF["likely links alone"], ((0, 1),)), NODE_HEADS)
    assert [tuple(each) for each in found] == [
        ("encoders on likely links", "logistic", ("likely", *ATTRIBUTE_BLOCKS)),
        ("smoothed attributes", "logistic", ATTRIBUTE_BLOCKS),
        ("attributes alone", "logistic", ATTRIBUTE_BLOCKS[:1]),
        ("boosted trees", "trees", ("likely",)),
    ]
    found = candidates({"likely": ((0, 1),)}, NODE_HEADS)
    assert [tuple(each) for each in found] == [
        ("encoders on likely links", "logistic", ("likely",)),
        ("boosted trees", "trees", ("likely",)),
    ]


def test_every_head_of_the_settings_is_a_candidate() -> None:
    assert set(NODE_HEADS) == {LinearMember.kind, TreesMember.kind}
    blocks = dict.fromkeys(BLOCKS_OF["all"], ((0, 1),))
    assert {each.kind for each in candidates(blocks, NODE_HEADS)} == set(NODE_HEADS)
    each_alone = [c for kind in NODE_HEADS for c in candidates(blocks, [kind])]
    assert sorted(each_alone) == sorted(candidates(blocks, NODE_HEADS))


def test_ranges_of_blocks_in_the_order_of_the_names() -> None:
    blocks = {"a": ((0, 3), (7, 9)), "b": ((3, 7),), "c": ((9, 12),)}
    assert ranges_of(("c", "a"), blocks) == ((9, 12), (0, 3), (7, 9))


# The choice of a whole fit, with embeddings that were made up.


class MadeUpTrial:
    """Hands out an embedding for each part, and remembers what it was shown."""

    def __init__(self, seed: int = 0) -> None:
        self.options = FitOptions(seed=seed)
        self.shown: dict[int, Graph] = {}
        self.fitted: dict[int, FittedEmbedding] = {}

    def fit_part(self, number: int, graph: Graph, ensemble: EnsembleConfig) -> FittedEmbedding:
        self.shown[number] = graph
        self.fitted[number] = replace(made_up(graph, seed=number), ensemble=ensemble)
        return self.fitted[number]


def recipe(parts: int, heads: tuple[str, ...] = NODE_HEADS) -> FitConfig:
    graph = training_graph()
    return FitConfig(ensembles=(made_up(graph).ensemble,), hidden_parts=parts, heads=heads)


def uneven_graph() -> Graph:
    """One that knows half as many labels of the last class."""
    graph = training_graph()
    assert graph.labels is not None
    labels = graph.labels.copy()
    labels[np.flatnonzero(labels == 2)[::2]] = -1
    return graph.with_labels(labels)


def chosen_with(trial: MadeUpTrial, graph: Graph, config: FitConfig) -> Selected:
    return choose_by_hidden_labels(TrainingData(graph), config, cast("Trial", trial))


@pytest.mark.parametrize("parts", [2, 3])
def test_every_label_is_hidden_once_and_the_rest_is_shown(parts: int) -> None:
    graph, trial = training_graph(), MadeUpTrial(seed=4)
    assert graph.labels is not None
    known = TrainingData(graph).labelled
    selected = chosen_with(trial, graph, recipe(parts))
    assert selected.blend is not None
    assert selected.blend.num_hidden == len(known)
    assert selected.ensemble == recipe(parts).ensembles[0]
    times = Counter[int]()
    for shown in trial.shown.values():
        assert shown.labels is not None
        hidden = np.flatnonzero(shown.labels != graph.labels)
        assert (shown.labels[hidden] == -1).all()
        assert set(np.unique(shown.labels[known])) - {-1} == set(np.unique(graph.labels[known]))
        times.update(hidden.tolist())
    assert len(trial.shown) == parts
    assert times == Counter(known.tolist())


def test_the_only_label_of_a_class_is_never_hidden() -> None:
    graph = training_graph()
    assert graph.labels is not None
    labels = graph.labels.copy()
    of_class = np.flatnonzero(labels == 0)
    labels[of_class[1:]] = -1
    trial = MadeUpTrial()
    selected = chosen_with(trial, graph.with_labels(labels), recipe(3))
    assert selected.blend is not None
    assert selected.blend.num_hidden == (labels >= 0).sum() - 1
    for shown in trial.shown.values():
        assert shown.labels is not None
        assert shown.labels[of_class[0]] == 0


def test_with_one_label_for_each_class_nothing_is_chosen() -> None:
    graph = training_graph()
    assert graph.labels is not None
    labels = np.full(graph.num_nodes, -1)
    for code in range(graph.num_classes):
        node = np.flatnonzero(graph.labels == code)[0]
        labels[node] = code
    trial = MadeUpTrial()
    with pytest.warns(UserWarning, match="No label can be hidden, because every class has one"):
        selected = chosen_with(trial, graph.with_labels(labels), recipe(3))
    assert selected == Selected(recipe(3).ensembles[0])
    assert not trial.shown


@pytest.mark.parametrize("metric", ["accuracy", "average_precision", "macro_f1"])
def test_members_have_what_the_hidden_labels_say_of_them(metric: str) -> None:
    """Fit by fit, converged, with the scores of all hidden labels put together."""
    graph, trial = uneven_graph(), MadeUpTrial(seed=2)
    config = replace(recipe(3), metric=metric)
    blend = chosen_with(trial, graph, config).blend
    assert blend is not None
    truth, known = TrainingData(graph).labels, TrainingData(graph).labelled
    part_of = stratified_folds(truth[known], 3, 2)
    blocks = column_blocks(config.ensembles[0], trial.fitted[0].widths, graph.num_attributes)
    found = candidates(blocks, config.heads)
    assert [each[:3] for each in blend.members] == [tuple(each) for each in found]
    logs = []
    for candidate, each in zip(found, blend.members, strict=True):
        ranges = ranges_of(candidate.blocks, blocks)
        Cs = C_VALUES if candidate.kind == LinearMember.kind else (1.0,)
        scores = np.zeros((len(Cs), graph.num_nodes, graph.num_classes))
        for part, fitted in trial.fitted.items():
            hidden, shown = known[part_of == part], known[part_of != part]
            read = np.hstack([fitted.embedding.numpy()[:, a:b] for a, b in ranges])
            if candidate.kind == LinearMember.kind:
                for at, head in enumerate(logistic_path(read[shown], truth[shown], Cs=Cs)):
                    scores[at, hidden] = linear_scores(head, read[hidden].astype(np.float64))
            else:
                rows = rows_of(trial.shown[part], fitted)
                trees = TreesMember.fit(rows, ranges, graph.num_classes, seed=2)
                scores[0, hidden] = np.log(by_hand(trees, rows, graph.num_classes)[hidden])
        C, factor, log_probabilities = pooled_choice(
            torch.from_numpy(scores[:, known]), truth[known], Cs
        )
        logs.append(log_probabilities)
        own = log_probabilities[np.arange(len(known)), truth[known]]
        accuracy = np.mean(log_probabilities.argmax(axis=1) == truth[known])
        # Fits that are compared are not converged to the end.
        assert pytest.approx(C, rel=0.05) == each.C
        assert each.inverse_temperature == pytest.approx(factor, rel=0.05)
        assert each.log_loss == pytest.approx(-own.mean(), abs=0.01)
        assert each.accuracy == pytest.approx(accuracy, abs=1.5 / len(known))
    weights = np.array([each.weight for each in blend.members])
    assert weights.sum() == pytest.approx(1)
    # In the order of the parts, which does not matter.
    codes, each_node = truth[known], np.arange(len(known))
    a = class_weights(codes) if metric in BALANCED_METRICS else np.ones(len(known))
    likelihood = np.array(logs)[:, each_node, codes]
    expected = blend_weights(likelihood, prior_labels(blend.members), a)
    np.testing.assert_allclose(weights, expected, atol=0.05)
    together = np.tensordot(weights, np.exp(np.array(logs)), axes=1)
    loss = -np.log(together[each_node, codes]).mean()
    right = (together * np.array(blend.class_factors)[np.unique(codes)]).argmax(axis=1) == codes
    assert blend.log_loss == pytest.approx(loss, abs=0.01)
    assert blend.accuracy == pytest.approx(np.mean(right), abs=1.5 / len(known))
    assert blend.metric == metric
    assert len(blend.class_factors) == graph.num_classes
    if metric not in CLASS_METRICS:
        assert set(blend.class_factors) == {1.0}


def test_heads_that_are_not_asked_for_are_no_candidates() -> None:
    graph = training_graph()
    for heads in (("logistic",), ("trees",)):
        blend = chosen_with(MadeUpTrial(), graph, recipe(2, heads)).blend
        assert blend is not None
        assert {member.kind for member in blend.members} == set(heads)


# The heads that are fitted in the end.


def test_heads_are_fitted_on_all_training_labels() -> None:
    graph = training_graph()
    fitted, data = made_up(graph), TrainingData(graph)
    rows, blend = rows_of(graph, fitted), choice_of(graph, fitted)
    head = fit_blend(data, fitted, blend, 1.0, seed=3)
    assert head.blend is blend
    np.testing.assert_allclose(head.weights, [each.weight for each in blend.chosen])
    blocks = column_blocks(fitted.ensemble, fitted.widths, graph.num_attributes)
    known, labels = data.labelled, data.known_labels
    assert len(head.members) == len(blend.chosen)
    for member, chosen in zip(head.members, blend.chosen, strict=True):
        assert member.kind == chosen.kind
        assert member.ranges == ranges_of(chosen.blocks, blocks)
        answers = by_hand(member, rows, graph.num_classes)
        if isinstance(member, TreesMember):
            plain = TreesMember.fit(rows, member.ranges, graph.num_classes, seed=3)
            logs = np.log(by_hand(plain, rows, graph.num_classes))
            expected = softmax(chosen.inverse_temperature * logs, axis=1)
        else:
            z = fitted.embedding.numpy().astype(np.float64)
            read = np.hstack([z[:, a:b] for a, b in member.ranges])
            unit = read - read[known].mean(axis=0)
            unit /= np.linalg.norm(unit, axis=1, keepdims=True)
            model = LogisticRegression(C=chosen.C, tol=1e-10, max_iter=10_000)
            scores = model.fit(unit[known], labels).decision_function(unit)
            expected = softmax(chosen.inverse_temperature * scores, axis=1)
        np.testing.assert_allclose(answers, expected, atol=1e-5)


@pytest.mark.parametrize("number", [4, 15])
def test_logistic_heads_are_fitted_again_on_the_surest_answers(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SELF_TRAINING_THRESHOLD", 0.0)  # the precision is to decide
    # Labels that are predictions are fitted less exactly than the formula, which is tried here.
    assert CV_TOLERANCE <= 1e-3
    monkeypatch.setattr(module, "CV_TOLERANCE", 1e-9)
    graph = training_graph()
    fitted, data = made_up(graph), TrainingData(graph)
    rows, blend = rows_of(graph, fitted), choice_of(graph, fitted)
    first = fit_blend(data, fitted, blend, 1.0, seed=3)
    mixed = mixed_by_hand(first, rows, graph.num_classes)
    # The surest rows, whose mean probability is the precision that was asked for.
    order = sorted(set(range(graph.num_nodes)) - set(data.labelled.tolist()))
    order.sort(key=lambda u: -mixed[u].max())
    taken = order[:number]
    one_more = [mixed[u].max() for u in order[: number + 1]]
    precision = float(np.mean(one_more[:-1]) + np.mean(one_more)) / 2
    again = fit_blend(data, fitted, blend, precision, seed=3)
    nodes = np.array([*data.labelled, *sorted(taken)])
    codes = np.append(data.known_labels, mixed[sorted(taken)].argmax(axis=1))
    z = fitted.embedding.numpy().astype(np.float64)
    kinds = [(each.kind, bool(each.encoders)) for each in blend.chosen]
    assert set(kinds) == {("trees", True), ("logistic", True), ("logistic", False)}
    for kind, member, before in zip(kinds, again.members, first.members, strict=True):
        if kind != ("logistic", True):  # trees, and what reads attributes only, are fitted once
            after, old = member.to_tensors(), before.to_tensors()
            assert all(after[name].tobytes() == old[name].tobytes() for name in old)
            continue
        assert isinstance(member, LinearMember)
        assert isinstance(before, LinearMember)
        read = np.hstack([z[:, a:b] for a, b in member.ranges])
        unit = read - read[nodes].mean(axis=0)
        unit /= np.linalg.norm(unit, axis=1, keepdims=True)
        model = LogisticRegression(C=before.head.C_, tol=1e-10, max_iter=10_000)
        scores = model.fit(unit[nodes], codes).decision_function(unit)
        target = softmax(linear_scores(before.head, read), axis=1)

        def agreement(t: float, scores: Floats = scores, target: Floats = target) -> float:
            return float((target * log_softmax(t * scores, axis=1)).sum(axis=1).mean())

        factor = max(INVERSE_TEMPERATURES, key=agreement)
        expected = softmax(factor * scores, axis=1)
        np.testing.assert_allclose(by_hand(member, rows, graph.num_classes), expected, atol=1e-5)
        assert np.abs(member.head.coef_ - before.head.coef_).max() > 0.01
    np.testing.assert_array_equal(again.weights, first.weights)


def test_no_answer_below_the_usual_threshold_becomes_a_label(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[float] = []

    def spy(*given_: Any, threshold: float, seed: int) -> Any:
        seen.append(threshold)
        return self_training.with_pseudo_labels(*given_, threshold=threshold, seed=seed)

    monkeypatch.setattr(module, "with_pseudo_labels", spy)
    graph = training_graph()
    fitted, data = made_up(graph), TrainingData(graph)
    first = fit_blend(data, fitted, choice_of(graph, fitted), 1.0, seed=0)
    assert not seen
    fit_blend(data, fitted, choice_of(graph, fitted), 0.5, seed=0)
    assert seen == [SELF_TRAINING_THRESHOLD]
    # Where no answer is sure enough, the heads stay as they are.
    monkeypatch.setattr(module, "threshold_for", lambda *_: 1.0)
    kept = fit_blend(data, fitted, choice_of(graph, fitted), 0.9, seed=0)
    for member, before in zip(kept.members, first.members, strict=True):
        after, old = member.to_tensors(), before.to_tensors()
        assert all(after[name].tobytes() == old[name].tobytes() for name in old)


# Whole fits.


def side() -> TrainingData:
    graph = small_graph(50)
    split = small_split(graph, "nodes")
    assert isinstance(split, NodeSplit)
    return training_data(graph, split)


@pytest.mark.slow
def test_what_reads_no_label_is_trained_once(monkeypatch: pytest.MonkeyPatch) -> None:
    config = hidden_recipe(1)
    seeds: list[int] = []

    def counting(*given_: Any, seed: int, **options: Any) -> Any:
        seeds.append(seed)
        return train(*given_, seed=seed, **options)

    monkeypatch.setattr("xtcl.tasks.fit.train", counting)
    result = fit_task(side(), NodeClassification(), config, FitOptions(seed=5))
    fits = config.hidden_parts + 1
    expected = Counter[int]()
    for number, encoder in enumerate(config.ensembles[0].encoders):
        name = encoder.positives
        reads_labels = name is None or make_strategy(name).reads_labels
        once = not reads_labels and encoder.messages == "links"
        expected[encoder_seed(5, number)] = 1 if once else fits
    assert Counter(seeds) == expected
    assert set(expected.values()) == {1, fits}
    assert isinstance(result.head, BlendedHead)


@pytest.mark.slow
def test_what_was_trained_once_is_what_would_be_trained_again(tmp_path: Path) -> None:
    """A fit that goes on from the choice trains every encoder, and ends with the same bytes."""
    config, data = hidden_recipe(1), side()
    kept = Checkpoints(tmp_path / "kept")
    store = RelationStore(tmp_path / "store")
    first = fit_task(data, NodeClassification(), config, FitOptions(checkpoints=kept, store=store))
    choice = Checkpoints(tmp_path / "choice")
    saved = kept.load("choice")
    assert saved is not None
    choice.save("choice", saved)
    second = fit_task(data, NodeClassification(), config, FitOptions(checkpoints=choice))
    assert torch.equal(first.fitted.embedding, second.fitted.embedding)
    tensors, others = first.head.to_tensors(), second.head.to_tensors()
    assert tensors.keys() == others.keys()
    assert all(tensors[name].tobytes() == others[name].tobytes() for name in tensors)


@pytest.mark.slow
def test_with_too_few_labels_to_hide_one_head_answers() -> None:
    graph = small_graph(50)
    assert graph.labels is not None
    nodes = [int(np.flatnonzero(graph.labels == code)[0]) for code in range(graph.num_classes)]
    with pytest.warns(UserWarning, match="No label can be hidden"):
        model = XTCL(recipe=hidden_recipe(2), device="cpu").fit(graph, nodes)
    assert isinstance(model.head_, LogisticHead)
    assert model.choice_ is None
    assert model.predict_proba().shape == (50, graph.num_classes)
    np.testing.assert_allclose(model.predict_proba().sum(axis=1), 1)
    model = XTCL(recipe=hidden_recipe(2), device="cpu").fit(graph, sorted({*nodes, *range(6)}))
    assert model.choice_ is not None
    assert model.choice_.num_hidden >= 2


@pytest.mark.slow
def test_a_graph_without_attributes_has_candidates() -> None:
    graph = small_graph(50)
    bare = Graph.from_arrays(edges=graph.edges, labels=graph.labels, num_nodes=50)
    model = XTCL(recipe=hidden_recipe(2), device="cpu").fit(bare, small_split(graph, "nodes"))
    assert model.choice_ is not None
    assert all(member.encoders for member in model.choice_.members)
    assert model.predict_proba().shape == (50, 3)


@pytest.mark.slow
def test_an_encoder_of_the_users_own_has_candidates() -> None:
    graph = small_graph(50)
    own = GCNEncoder(graph.num_attributes, 8)
    model = XTCL(encoder=own, recipe=HIDDEN_LABELS, epochs=2, device="cpu")
    model.fit(graph, small_split(graph, "nodes"))
    assert model.choice_ is not None
    assert {name for member in model.choice_.members for name in member.blocks} == {LEARNED}
    assert model.embedding_.shape == (50, 8)


# What a fit computes, and how often.


class Calls:
    """Counts what fits do: encoders trained by seed, samplers fitted, likely links searched for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.trained = Counter[int]()
        self.labels_of_samplers: list[int] = []
        self.searches = 0

        def training(*given_: Any, seed: int, **options: Any) -> Any:
            self.trained[seed] += 1
            return train(*given_, seed=seed, **options)

        def sampling(graph: Graph, *given_: Any) -> Any:
            self.labels_of_samplers.append(len(TrainingData(graph).labelled))
            return fit_sampler(graph, *given_)

        def searching(*given_: Any, **options: Any) -> Any:
            self.searches += 1
            return find_likely_links(*given_, **options)

        monkeypatch.setattr("xtcl.tasks.fit.train", training)
        monkeypatch.setattr(sampled_positives, "fit_sampler", sampling)
        monkeypatch.setattr(sampled_positives, "find_likely_links", searching)


def fitted_by_name(**settings: Any) -> XTCL:
    graph = small_graph(50)
    return XTCL(device="cpu", **settings).fit(graph, small_split(graph, "nodes"))


@pytest.mark.slow
def test_the_quick_recipe_does_nothing_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    shrink_hidden_recipe(monkeypatch, 1)
    calls = Calls(monkeypatch)
    model = fitted_by_name(recipe=QUICK, random_state=5)
    assert model.choice_ is not None
    assert model.choice_.num_hidden == len(model.training_data_.labelled)
    assert {each.kind for each in model.choice_.members} == {"logistic"}
    assert calls.trained == Counter({encoder_seed(5, 0): 1, encoder_seed(5, 1): 1})
    assert calls.labels_of_samplers == [len(model.training_data_.labelled)]
    assert calls.searches == 0
    # The encoder of the user's own gives the embedding alone, by positives that read no label.
    calls = Calls(monkeypatch)
    own = GCNEncoder(small_graph(50).num_attributes, 8)
    model = fitted_by_name(recipe=QUICK, encoder=own, random_state=5)
    assert calls.trained == Counter([5])
    assert len(calls.labels_of_samplers) == 1
    assert model.embedding_.shape == (50, 8)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("positives", "times"), [("uniform", 1), ("same-label", 4), ("learned", 4)]
)
def test_one_strategy_is_for_every_encoder_and_each_is_trained_for_it(
    positives: str, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    shrink_hidden_recipe(monkeypatch, 2)
    calls = Calls(monkeypatch)
    usual = fitted_by_name(recipe=HIDDEN_LABELS, random_state=5)
    assert usual.encoder_.over_likely == (False, False, False, True)
    parts = usual.recipe_.hidden_parts
    assert (parts, calls.searches, len(calls.labels_of_samplers)) == (3, 4, 4)
    assert calls.trained == Counter(
        {encoder_seed(5, number): (1, 1, 4, 4)[number] for number in range(4)}
    )

    calls = Calls(monkeypatch)
    model = fitted_by_name(recipe=HIDDEN_LABELS, positives=positives, random_state=5)
    learns = make_strategy(positives).learns
    # All are narrow here, so that with one strategy two of the four are the same one.
    encoders = model.recipe_.ensembles[0].encoders
    assert [each.positives for each in encoders] == [positives] * (3 if learns else 2)
    assert model.encoder_.over_likely == ((False, False, True) if learns else (False, False))
    assert (model.encoder_.likely is not None) is learns
    seeds = {encoder_seed(5, number): times for number in range(len(encoders))}
    assert calls.trained == Counter(seeds)
    assert calls.searches == (4 if learns else 0)
    assert len(calls.labels_of_samplers) == (4 if learns else 1)
    assert model.choice_ is not None
    read = {name for each in model.choice_.members for name in each.blocks}
    assert read - set(ATTRIBUTE_BLOCKS) == {positives, *(["likely"] if learns else [])}
    # The first two encoders come first; those of the usual recipe have uniform positives.
    width = sum(int(str(each.encoder["width"])) for each in encoders[:2])
    same = np.allclose(model.embedding_[:, :width], usual.embedding_[:, :width], atol=1e-4)
    assert same is (positives == "uniform")


@pytest.mark.slow
def test_a_strategy_object_is_that_of_the_encoders_that_it_names() -> None:
    class Neighbours(PositiveStrategy):
        """The first neighbour of each node."""

        name = "neighbours"
        reads_labels = False
        asked = 0

        def table(self, source: PositiveSource, number: int) -> PositiveTable:
            type(self).asked += 1
            rows = source.sampler.view_.adjacency.toarray()
            first = [int(row.argmax()) if row.any() else -1 for row in rows]
            return PositiveTable(np.array(first)[:, None])

    model = fitted_by_name(recipe=hidden_recipe(1), positives=Neighbours())
    assert [each.positives for each in model.recipe_.ensembles[0].encoders] == ["neighbours"] * 2
    assert Neighbours.asked == 2  # of the first part, and of the whole
    assert model.positives_.shape == (50, 1)


@pytest.mark.parametrize("hidden", [0, 3])
def test_hidden_labels_weigh_encoders_in_the_place_of_trust(hidden: int) -> None:
    config = replace(hidden_recipe(1), min_probability=0.9, hidden_parts=hidden)
    data, task = side(), NodeClassification()
    found = sampled_positives.sample_positives(data.graph, task, config, FitOptions())
    assert (found.trust == 1) is (hidden > 0)


@pytest.mark.slow
def test_a_fit_by_hidden_labels_has_trust_1() -> None:
    config = replace(hidden_recipe(1), min_probability=0.9)
    model = fitted_by_name(recipe=config)
    assert float(model.encoder_.trust) == 1
    assert [each.weight for each in model.recipe_.ensembles[0].encoders] == list(
        model.encoder_.weights
    )


@pytest.mark.slow
def test_the_sampler_keeps_no_folder_that_is_gone(tmp_path: Path) -> None:
    folders: list[Path] = []

    class Seen(RelationStore):
        def __init__(self, folder: Path, *, durable: bool) -> None:
            assert not durable  # it goes with the process
            folders.append(folder)
            super().__init__(folder)

    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr("xtcl.tasks.fit.RelationStore", Seen)
        model = fitted_by_name(recipe=hidden_recipe(1))
    (folder,) = folders
    assert not folder.exists()
    assert model.sampler_.store is None
    assert model.sampler_.opened_store is None
    best = model.sampler_.positives(2)
    assert model.explain(0, int(best.nodes[0, 0])).probability > 0
    assert not folder.exists()
    own = fitted_by_name(recipe=hidden_recipe(1), store=tmp_path)
    kept = own.sampler_.opened_store
    assert kept is not None
    assert Path(kept.folder) == tmp_path
    assert any(tmp_path.iterdir())
    np.testing.assert_array_equal(own.embedding_, model.embedding_)
    np.testing.assert_array_equal(own.predict_proba(), model.predict_proba())


# Metrics that count all classes alike, in a whole fit.

NEW = 6


@cache
def of_rare_classes() -> tuple[Graph, NodeSplit, np.ndarray, np.ndarray]:
    """A graph whose first class has four nodes of six; attributes and links of new nodes."""
    whole = block_model(126, num_classes=6, num_attributes=24, attribute_signal=0.7, seed=1)
    assert whole.labels is not None
    count = whole.num_nodes - NEW
    old = (whole.edges < count).all(axis=0)
    values = np.asarray(whole.attributes)
    labels = np.maximum(whole.labels - 3, 0)[:count]
    graph = Graph.from_arrays(
        values[:count], whole.edges[:, old], labels, classes=("usual", "rare", "scarce")
    )
    return graph, node_split(graph, 0.4, seed=0), values[count:], whole.edges[:, ~old]


@cache
def for_macro_f1() -> XTCL:
    """A fit of it in which rare classes are favoured as much as may be; not to be changed."""
    graph, split, *_ = of_rare_classes()
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(module, "CLASS_POWERS", (1.0,))
        return XTCL(recipe=hidden_recipe(3), metric="macro_f1", device="cpu").fit(graph, split)


@pytest.mark.slow
def test_class_factors_decide_what_is_predicted_wherever_that_is_said(tmp_path: Path) -> None:
    model, (graph, split, attributes, links) = for_macro_f1(), of_rare_classes()
    assert model.choice_ is not None
    assert model.choice_.metric == model.recipe_.metric == "macro_f1"
    codes = model.training_data_.known_labels.tolist()
    share = np.array([codes.count(c) / len(codes) for c in range(3)])
    np.testing.assert_allclose(model.choice_.class_factors, 1 / share, rtol=1e-6)
    names = np.array(graph.classes)
    table = model.predict_proba()
    expected = [int(np.argmax([row[c] / share[c] for c in range(3)])) for row in table]
    plain = table.argmax(axis=1)
    assert (plain != expected).any()
    model.save(tmp_path)
    truth = np.asarray(graph.labels)[split.test]
    for each in (model, XTCL.load(tmp_path)):
        assert each.predict().tolist() == names[expected].tolist()
        assert each.predict([7, 3]).tolist() == [names[expected[7]], names[expected[3]]]
        frame = each.predict_frame()
        assert frame["predicted"].tolist() == names[expected].tolist()
        of_class = table[np.arange(len(table)), expected]
        np.testing.assert_allclose(frame["probability"], of_class, atol=1e-4)
        for u in np.flatnonzero(plain != expected)[:3].tolist():
            node = each.explain_node(u).node
            assert node.predicted == names[expected[u]]
            assert node.probability == pytest.approx(of_class[u], abs=1e-4)
        facts = RunFacts.of(each)
        assert facts.predicted.tolist() == expected
        np.testing.assert_allclose(facts.confidence, of_class, atol=1e-6)
        metrics = each.test_metrics(split, graph)
        predicted = np.array(expected)[split.test]
        assert metrics["accuracy"] == pytest.approx(np.mean(predicted == truth))
        assert metrics["macro_f1"] == pytest.approx(f1_score(truth, predicted, average="macro"))
        recall = balanced_accuracy_score(truth, predicted)
        assert metrics["balanced_accuracy"] == pytest.approx(recall)
        new = each.predict_new(attributes, links)
        chances = new[[f"p_{name}" for name in graph.classes]].to_numpy()
        of_new = (chances / share).argmax(axis=1)
        assert new["predicted"].tolist() == names[of_new].tolist()
        np.testing.assert_allclose(new["probability"], chances[np.arange(NEW), of_new], atol=1e-4)


@pytest.mark.slow
def test_new_nodes_of_rare_classes_are_favoured_too() -> None:
    model, (*_, attributes, links) = for_macro_f1(), of_rare_classes()
    answer = model.predictions_
    assert isinstance(answer, NodePredictions)
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(answer, "class_factors", np.array([1e-9, 1e-9, 1.0]))
        new = model.predict_new(attributes, links)
    assert set(new["predicted"]) == {"scarce"}
    np.testing.assert_array_equal(new["probability"], new["p_scarce"])


@pytest.mark.slow
def test_the_metric_decides_factors_and_weights_and_not_what_is_trained() -> None:
    graph, split, *_ = of_rare_classes()
    plain = XTCL(recipe=hidden_recipe(3), device="cpu").fit(graph, split)
    other = for_macro_f1()
    np.testing.assert_array_equal(plain.embedding_, other.embedding_)
    assert plain.choice_ is not None
    assert other.choice_ is not None
    assert set(plain.choice_.class_factors) == {1.0}
    assert (
        plain.predict().tolist()
        == np.array(graph.classes)[plain.predict_proba().argmax(axis=1)].tolist()
    )
    facts = ("name", "C", "log_loss", "accuracy")
    for one, two in zip(plain.choice_.members, other.choice_.members, strict=True):
        assert [getattr(one, fact) for fact in facts] == [getattr(two, fact) for fact in facts]
    assert [each.weight for each in plain.choice_.members] != [
        each.weight for each in other.choice_.members
    ]


# What cannot be used.


def test_metrics_that_cannot_be_used_are_refused() -> None:
    graph = small_graph(50)
    for recipe_ in (None, QUICK, HIDDEN_LABELS):
        with pytest.raises(UsageError, match="no metric 'nonsense' of nodes"):
            XTCL(recipe=recipe_, metric="nonsense", device="cpu").fit(graph)
    with pytest.raises(UsageError, match="metric=3 must be a name"):
        XTCL(recipe=QUICK, metric=cast("str", 3), device="cpu").fit(graph)
    with pytest.raises(UsageError, match="no metric 'auc' of nodes"):
        XTCL(recipe=replace(hidden_recipe(1), metric="auc"), device="cpu").fit(graph)
    for metric in ("roc_auc", "average_precision"):
        with pytest.raises(UsageError, match="is for two classes, and graph 'blocks-50' has 3"):
            XTCL(recipe=QUICK, metric=metric, device="cpu").fit(graph)
    with pytest.raises(UsageError, match="metric='macro_f1' is what hidden labels choose for"):
        XTCL(recipe=FIXED_RULES, metric="macro_f1", device="cpu").fit(graph)
    with pytest.raises(UsageError, match="metric='macro_f1' is for nodes: leave it out for links"):
        XTCL("links", metric="macro_f1", device="cpu").fit(graph)
    for name in (HIDDEN_LABELS, QUICK):
        with pytest.raises(UsageError, match=f"'{name}' is for nodes; for links there is '2026-"):
            XTCL("links", recipe=name, device="cpu").fit(graph)


@pytest.mark.slow
def test_a_metric_of_two_classes_is_for_two_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    shrink_hidden_recipe(monkeypatch, 1)
    graph = block_model(40, num_classes=2, num_attributes=16)
    model = XTCL(recipe=QUICK, metric="roc_auc", device="cpu").fit(graph, node_split(graph, 0.4))
    assert model.choice_ is not None
    assert model.choice_.metric == "roc_auc"
    assert model.choice_.class_factors == (1.0, 1.0)
