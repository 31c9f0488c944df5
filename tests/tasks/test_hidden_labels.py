"""What hidden labels choose, against the formulas with loops and another solver."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
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
from small_blends import (
    by_hand,
    choice_of,
    hidden_recipe,
    linear_scores,
    made_up,
    mixed_by_hand,
    rows_of,
    training_graph,
)
from small_runs import small_graph, small_split

from xtcl.config import HIDDEN_LABELS, NODE_HEADS, EnsembleConfig, FitConfig
from xtcl.estimator import XTCL
from xtcl.graph.graph import Graph
from xtcl.graph.splits import NodeSplit
from xtcl.nn.gcn import GCNEncoder
from xtcl.relations.store.relation_store import RelationStore
from xtcl.sampling.strategies import make_strategy
from xtcl.tasks import hidden_labels as module
from xtcl.tasks import self_training
from xtcl.tasks.blend import ATTRIBUTE_BLOCKS, BlendedHead, LinearMember, TreesMember, column_blocks
from xtcl.tasks.fit import FitOptions, Trial, encoder_seed, fit_task
from xtcl.tasks.hidden_labels import (
    blend_weights,
    candidates,
    choose_by_hidden_labels,
    fit_blend,
    logistic_at,
    mixture_likelihood,
    mixture_weights,
    pooled_choice,
    ranges_of,
)
from xtcl.tasks.logistic import (
    C_VALUES,
    INVERSE_TEMPERATURES,
    Floats,
    LogisticHead,
    logistic_path,
    stratified_folds,
)
from xtcl.tasks.node_classification import NodeClassification
from xtcl.tasks.results import FittedEmbedding
from xtcl.tasks.self_training import SELF_TRAINING_THRESHOLD
from xtcl.tasks.task import Selected
from xtcl.tasks.training_data import TrainingData, training_data
from xtcl.training.checkpoint import Checkpoints
from xtcl.training.trainer import train

INDIFFERENCE = module._INDIFFERENCE
MIN_WEIGHT = module._MIN_WEIGHT
PRIOR = module._PRIOR_LABELS


def likelihoods(count: int, labels: int, seed: int, spread: float = 0.7) -> Floats:
    """Log-likelihoods [M, n] of candidates of unequal worth that err on different labels."""
    rng = np.random.default_rng(seed)
    means = np.linspace(1.5, 0.5, count)[:, None]
    scores = rng.normal(means, 2 * spread, (count, labels))
    return np.asarray(-np.log1p(np.exp(-scores)))


# The mixture.


def objective(w: Floats, log_likelihood: Floats) -> float:
    """What is printed at the top of the module, label by label; the prior counts PRIOR labels."""
    total = 0.0
    for u in range(log_likelihood.shape[1]):
        chance = sum(w[m] * np.exp(log_likelihood[m, u]) for m in range(len(w)))
        total += np.log(chance)
    return float(total + PRIOR / len(w) * np.sum(np.log(w)))


@pytest.mark.parametrize(("count", "labels"), [(2, 1), (2, 40), (3, 5), (4, 60), (6, 25)])
@pytest.mark.parametrize("seed", range(2))
def test_mixture_weights_maximise_the_objective(count: int, labels: int, seed: int) -> None:
    given_ = likelihoods(count, labels, seed)

    def loss(free: Floats) -> float:
        return -objective(softmax(np.append(free, 0.0)), given_)

    best = minimize(loss, np.zeros(count - 1), method="BFGS", options={"gtol": 1e-7})
    found = mixture_weights(given_)
    assert (found > 0).all()
    assert found.sum() == pytest.approx(1)
    assert objective(found, given_) == pytest.approx(-best.fun, abs=1e-6)
    np.testing.assert_allclose(found, softmax(np.append(best.x, 0.0)), atol=1e-3)


def test_a_simplex_grid_has_no_better_weights() -> None:
    given_ = likelihoods(3, 30, seed=5)
    found = objective(mixture_weights(given_), given_)
    steps = np.linspace(0.01, 0.98, 40)
    for a in steps:
        for b in steps[a + steps < 0.995]:
            assert objective(np.array([a, b, 1 - a - b]), given_) <= found + 1e-9


def test_equal_candidates_have_equal_weights_and_small_numbers_do_not_vanish() -> None:
    one = likelihoods(1, 20, seed=0)
    np.testing.assert_allclose(mixture_weights(np.repeat(one, 4, axis=0)), 0.25)
    np.testing.assert_allclose(mixture_weights(one), 1.0)
    far = likelihoods(3, 20, seed=1)
    np.testing.assert_allclose(mixture_weights(far - 2000.0), mixture_weights(far), atol=1e-9)


@given(seed=st.integers(0, 999), count=st.integers(1, 5), labels=st.integers(1, 12))
def test_the_likelihood_of_a_mixture(seed: int, count: int, labels: int) -> None:
    given_ = likelihoods(count, labels, seed)
    w = np.random.default_rng(seed).dirichlet(np.ones(count))
    expected = [
        np.log(sum(w[m] * np.exp(given_[m, u]) for m in range(count))) for u in range(labels)
    ]
    np.testing.assert_allclose(mixture_likelihood(w, given_), expected, atol=1e-12)
    np.testing.assert_allclose(mixture_likelihood(w, given_ - 2000), np.array(expected) - 2000)


# Which candidates answer.


def is_above(difference: Sequence[float]) -> bool:
    """Whether the mean is above 0 by more than two standard errors."""
    n = len(difference)
    if n == 1:
        return False  # no error is known
    mean = sum(difference) / n
    variance = sum((each - mean) ** 2 for each in difference) / (n - 1)
    return mean > 2 * float(np.sqrt(variance / n))


def weights_by_the_book(given_: Floats) -> Floats:
    losses = [-float(np.mean(each)) for each in given_]
    best = losses.index(min(losses))
    level = []
    for each, loss in zip(given_, losses, strict=True):
        behind = [float(a - b) for a, b in zip(given_[best], each, strict=True)]
        level.append(loss - losses[best] <= INDIFFERENCE or not is_above(behind))
    equal = np.array([float(one) / sum(level) for one in level])
    mixed = np.array([w if w >= MIN_WEIGHT else 0.0 for w in mixture_weights(given_)])
    mixed = mixed / mixed.sum()
    gain = [
        np.log(mixed @ np.exp(given_[:, u])) - np.log(equal @ np.exp(given_[:, u]))
        for u in range(given_.shape[1])
    ]
    return mixed if is_above([float(each) for each in gain]) else equal


@given(
    seed=st.integers(0, 9999),
    count=st.integers(1, 6),
    labels=st.integers(1, 60),
    spread=st.sampled_from((0.01, 0.2, 0.7, 2.0)),
)
def test_weights_are_those_of_the_rules(seed: int, count: int, labels: int, spread: float) -> None:
    given_ = likelihoods(count, labels, seed, spread)
    found = blend_weights(given_)
    np.testing.assert_allclose(found, weights_by_the_book(given_), atol=1e-12)
    assert found.sum() == pytest.approx(1)
    assert ((found == 0) | (found >= MIN_WEIGHT)).all()


def noisy(behind: float, noise: float, labels: int = 50) -> Floats:
    """A candidate that is `behind` another on average, by more on some labels than on others."""
    wave = np.tile([1.0, -1.0], labels // 2)
    best = np.full(labels, -0.5)
    return np.stack([best, best - behind - noise * wave])


@pytest.mark.parametrize(
    ("behind", "noise", "both"),
    [
        (0.9 * INDIFFERENCE, 0.0, True),  # for certain, but by next to nothing
        (1.1 * INDIFFERENCE, 0.0, False),
        (1.1 * INDIFFERENCE, 0.5 * INDIFFERENCE, False),
        (10 * INDIFFERENCE, 100 * INDIFFERENCE, True),  # by much, but within two errors
        (10 * INDIFFERENCE, 10 * INDIFFERENCE, False),
    ],
)
def test_a_candidate_is_level_within_two_errors_or_an_indifferent_difference(
    behind: float, noise: float, both: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The mixture may not decide here.
    monkeypatch.setattr(module, "mixture_weights", lambda given_: np.array([0.5, 0.5]))
    monkeypatch.setattr(module, "mixture_likelihood", lambda w, given_: given_[0])
    expected = [0.5, 0.5] if both else [1.0, 0.0]
    np.testing.assert_allclose(blend_weights(noisy(behind, noise)), expected)


def test_a_mixture_that_is_clearly_better_answers() -> None:
    """Two candidates that each know half of the labels, and the third neither."""
    rng = np.random.default_rng(0)
    half = np.arange(200) % 2 == 0
    given_ = np.log(
        np.stack([np.where(half, 0.9, 0.3), np.where(half, 0.35, 0.9), np.full(200, 1e-3)])
    )
    given_ += 0.01 * rng.normal(size=given_.shape)
    found = blend_weights(given_)
    assert found[2] == 0
    assert mixture_weights(given_)[2] < MIN_WEIGHT
    # The best one alone, or beside one that is clearly behind but hedges it.
    right = np.arange(1000) % 10 < 7
    given_ = np.log(np.stack([np.where(right, 0.9, 0.05), np.full(1000, 0.3)]))
    mixed = blend_weights(given_)
    assert MIN_WEIGHT < mixed[1] < 0.5
    np.testing.assert_allclose(mixed, weights_by_the_book(given_))
    np.testing.assert_allclose(mixed, mixture_weights(given_))


def test_a_small_weight_is_none_and_the_others_sum_to_one(monkeypatch: pytest.MonkeyPatch) -> None:
    given_ = likelihoods(3, 50, seed=0)
    small = np.array([0.7, 1 - 0.7 - 0.9 * MIN_WEIGHT, 0.9 * MIN_WEIGHT])
    monkeypatch.setattr(module, "mixture_weights", lambda given_: small)
    monkeypatch.setattr(module, "_is_above", lambda difference: True)
    found = blend_weights(given_)
    np.testing.assert_allclose(found, [*(small[:2] / small[:2].sum()), 0.0])


def test_equal_candidates_and_a_single_label_share_alike() -> None:
    one = likelihoods(1, 30, seed=0)
    np.testing.assert_allclose(blend_weights(one), [1.0])
    np.testing.assert_allclose(blend_weights(np.repeat(one, 3, axis=0)), 1 / 3)
    # One label has no standard error, so nothing is clearly worse.
    np.testing.assert_allclose(blend_weights(np.array([[-0.1], [-2.0], [-9.0]])), 1 / 3)


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
    if "logistic" in heads:
        assert ("logistic", frozenset(names)) in read
        alone = [blocks for kind, blocks in read if blocks <= set(ATTRIBUTE_BLOCKS)]
        assert bool(alone) is (ATTRIBUTE_BLOCKS[0] in names)


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
    selected = chosen_with(trial, graph.with_labels(labels), recipe(3))
    assert selected == Selected(recipe(3).ensembles[0])
    assert not trial.shown


def test_members_have_what_the_hidden_labels_say_of_them() -> None:
    """Fit by fit, converged, with the scores of all hidden labels put together."""
    graph, trial, config = training_graph(), MadeUpTrial(seed=2), recipe(3)
    blend = chosen_with(trial, graph, config).blend
    assert blend is not None
    truth, known = TrainingData(graph).labels, TrainingData(graph).labelled
    part_of = stratified_folds(truth[known], 3, 2)
    blocks = column_blocks(config.ensembles[0], trial.fitted[0].widths, graph.num_attributes)
    found = candidates(blocks, config.heads)
    assert [member[:3] for member in blend.members] == [tuple(each) for each in found]
    logs = []
    for candidate, member in zip(found, blend.members, strict=True):
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
        logs.append(log_probabilities[np.arange(len(known)), truth[known]])
        right = np.mean(log_probabilities.argmax(axis=1) == truth[known])
        # Fits that are compared are not converged to the end.
        assert pytest.approx(C, rel=0.05) == member.C
        assert member.inverse_temperature == pytest.approx(factor, rel=0.05)
        assert member.log_loss == pytest.approx(-logs[-1].mean(), abs=0.01)
        assert member.accuracy == pytest.approx(right, abs=1.5 / len(known))
    weights = [member.weight for member in blend.members]
    assert sum(weights) == pytest.approx(1)
    # In the order of the parts, which does not matter.
    np.testing.assert_allclose(weights, blend_weights(np.array(logs)), atol=0.05)


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
    for member, before in zip(again.members, first.members, strict=True):
        if isinstance(member, TreesMember):
            after, old = member.to_tensors(), before.to_tensors()
            assert all(after[name].tobytes() == old[name].tobytes() for name in old)
            continue
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
    assert all(member.reads_encoders for member in model.choice_.members)
    assert model.predict_proba().shape == (50, 3)


@pytest.mark.slow
def test_an_encoder_of_the_users_own_has_candidates() -> None:
    graph = small_graph(50)
    own = GCNEncoder(graph.num_attributes, 8)
    model = XTCL(encoder=own, recipe=HIDDEN_LABELS, epochs=2, device="cpu")
    model.fit(graph, small_split(graph, "nodes"))
    assert model.choice_ is not None
    assert {name for member in model.choice_.members for name in member.blocks} == {"learned"}
    assert model.embedding_.shape == (50, 8)
