"""Where the device has no room for a block it is halved, and nothing of the result changes."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from dense import all_rows
from sklearn.base import clone
from sklearn.exceptions import NotFittedError as SklearnNotFitted
from sklearn.utils.validation import check_is_fitted
from strategies import make_graph, make_view
from torch import Tensor

from xtcl.config import SamplerConfig
from xtcl.errors import DataError, NotFittedError, UsageError, XTCLError
from xtcl.relations.attribute_similarity import AttributeSimilarity
from xtcl.relations.blocks import run_in_blocks
from xtcl.relations.registry import forget_relation, register_relation, resolve_relations
from xtcl.relations.relation import Relation, Rows, SimilarityRows
from xtcl.relations.sparse import SparseRows
from xtcl.relations.store.relation_store import RelationStore
from xtcl.relations.topk_rows import TopKRows
from xtcl.relations.view import ATTRIBUTES, TrainingView
from xtcl.sampling.folds import label_folds, link_folds
from xtcl.sampling.positives import find_positives
from xtcl.sampling.xgsampler import XGSampler

GENERAL = SamplerConfig(quantiles=(0.7, 0.95), sweeps=4)


def fitted(
    view: TrainingView, settings: SamplerConfig = GENERAL, *, crossfit: int = 3, **options: Any
) -> XGSampler:
    labels = view.labels

    def alike(u: np.ndarray, v: np.ndarray) -> np.ndarray:
        return np.asarray(labels[u][:, None] == labels[v])

    folds = label_folds(view, alike, crossfit, np.random.default_rng(0))
    return XGSampler(options.pop("relations", "paper"), settings, **options).fit_folds(view, folds)


def test_explanations_agree_with_margins_and_positives() -> None:
    view = make_view(40, 0)
    sampler = fitted(view)
    found = sampler.positives(5)
    for u in range(0, 40, 7):
        for place, v in enumerate(found.nodes[u].tolist()):
            if v < 0:
                continue
            why = sampler.explain(u, v)
            assert (why.u, why.v, why.base) == (u, v, sampler.stumps_.base)
            total = math.fsum([why.base, *(signal.weight for signal in why.signals)])
            assert why.score == pytest.approx(total, abs=1e-12)
            assert why.score == pytest.approx(float(found.scores[u, place]), abs=1e-5)
            assert why.probability == pytest.approx(1 / (1 + math.exp(-why.score)), abs=1e-12)
            assert sampler.probability(u, v) == why.probability


def test_parameters_follow_scikit_learn() -> None:
    sampler = XGSampler("paper", GENERAL, block_rows=3, random_state=5)
    assert sampler.get_params() == {
        "relations": "paper",
        "settings": GENERAL,
        "crossfit": 5,
        "block_rows": 3,
        "random_state": 5,
        "store": None,
    }
    with pytest.raises(SklearnNotFitted):
        check_is_fitted(sampler)
    trained = fitted(make_view(40, 0))
    check_is_fitted(trained)
    again = clone(trained)
    assert again.get_params() == trained.get_params()
    assert not hasattr(again, "stumps_")


def test_an_explanation_shows_every_relation_strongest_first() -> None:
    view = make_view(40, 0)
    sampler = fitted(view)
    why = sampler.explain(3, 8)
    assert {signal.relation for signal in why.signals} == {r.name for r in sampler.relations_}
    strength = [abs(signal.weight) for signal in why.signals]
    assert strength == sorted(strength, reverse=True)
    weights = {weight.relation: weight.weights for weight in sampler.relation_weights_}
    for signal in why.signals:
        (relation,) = resolve_relations(signal.relation)
        row = all_rows(relation, view)[3]
        assert signal.similarity == row[8]
        assert len(signal.thresholds) == 2
        assert signal.thresholds[0] <= signal.thresholds[1]
        reached = sum(row[8] >= eta and row[8] > 0 for eta in signal.thresholds)
        assert signal.level == reached
        assert signal.weight == weights[signal.relation][reached]


@pytest.mark.parametrize(("u", "v"), [(-1, 0), (0, 40), (40, 0)])
def test_explaining_a_node_that_does_not_exist(u: int, v: int) -> None:
    with pytest.raises(UsageError, match=r"does not exist; nodes are 0 to 39\.$"):
        fitted(make_view(40, 0)).explain(u, v)


@pytest.mark.slow
@pytest.mark.parametrize("task", ["labels", "links"])
@pytest.mark.parametrize("settings", [SamplerConfig.paper(), GENERAL])
def test_block_rows_change_nothing(task: str, settings: SamplerConfig) -> None:
    view = make_view(70, 1, attributes="signed")

    def result(block_rows: int | None) -> tuple[Any, ...]:
        if task == "labels":
            sampler = fitted(view, settings, block_rows=block_rows)
        else:
            folds = link_folds(view, 3, np.random.default_rng(0))
            sampler = XGSampler("paper", settings, block_rows=block_rows).fit_folds(view, folds)
        found = sampler.positives(6)
        return (
            sampler.relation_weights_,
            sampler.counts_.codes.tolist(),
            sampler.counts_.counts.tolist(),
            found.nodes.tolist(),
            found.scores.tolist(),
        )

    whole = result(None)
    for block_rows in (1, 3, 7, 64, 70, 700):
        assert result(block_rows) == whole


def test_global_random_states_are_left_alone() -> None:
    np.random.seed(1)  # noqa: NPY002
    torch.manual_seed(2)
    random.seed(3)
    before = np.random.get_state(), torch.get_rng_state(), random.getstate()  # noqa: NPY002
    first = fitted(make_view(40, 0), SamplerConfig.paper()).positives(5)
    after = np.random.get_state(), torch.get_rng_state(), random.getstate()  # noqa: NPY002
    np.testing.assert_equal(after[0], before[0])
    assert torch.equal(after[1], before[1])
    assert after[2] == before[2]
    np.random.seed(9)  # noqa: NPY002
    torch.manual_seed(9)
    again = fitted(make_view(40, 0), SamplerConfig.paper()).positives(5)
    np.testing.assert_array_equal(first.nodes, again.nodes)


def test_the_seed_of_the_sampler_breaks_ties() -> None:
    view = make_view(60, 0)
    one, same, other = (
        fitted(view, SamplerConfig.paper(), random_state=seed).positives(5) for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(one.nodes, same.nodes)
    assert (one.nodes != other.nodes).any()
    np.testing.assert_array_equal(one.scores, other.scores)


@pytest.mark.parametrize("crossfit", [0, 4])
def test_labels_outside_training_change_nothing(crossfit: int) -> None:
    graph = make_graph(60, 2)
    assert graph.labels is not None
    train = np.arange(0, 60, 3)
    changed = graph.labels.copy()
    test = np.setdiff1d(np.arange(60), train)
    changed[test] = np.random.default_rng(0).permutation(changed[test])
    assert (changed != graph.labels).any()
    ours = fitted(TrainingView.of(graph, train), crossfit=crossfit)
    theirs = fitted(TrainingView.of(graph.with_labels(changed), train), crossfit=crossfit)
    assert ours.relation_weights_ == theirs.relation_weights_
    found, again = ours.positives(5), theirs.positives(5)
    np.testing.assert_array_equal(found.nodes, again.nodes)
    np.testing.assert_array_equal(found.scores, again.scores)


def test_positives_break_ties_by_attribute_distribution_by_default() -> None:
    view = make_view(50, 0)
    sampler = fitted(view, SamplerConfig(), relations=["link", "graph-distance"])
    (breaker,) = resolve_relations("attribute-distribution")
    expected = find_positives(
        sampler._fitted_rows(),
        sampler.stumps_,
        7,
        seed=0,
        height=64,
        tie_break=breaker,
    )
    np.testing.assert_array_equal(sampler.positives(7).nodes, expected.nodes)


def test_ties_are_broken_by_chance_where_the_tie_break_lacks_data() -> None:
    view = make_view(50, 0, attributes="none")
    usual = fitted(view, SamplerConfig(), relations=["link"]).positives(4)
    chance = fitted(view, SamplerConfig(tie_break=None), relations=["link"]).positives(4)
    np.testing.assert_array_equal(usual.nodes, chance.nodes)


def test_a_relation_without_its_data_is_left_out_and_named() -> None:
    sampler = fitted(make_view(30, 0, attributes="none"))
    assert sampler.left_out_ == {
        "attribute-similarity": ["attributes"],
        "attribute-distribution": ["attributes"],
        "attribute-label-distribution": ["attributes"],
    }
    assert len(sampler.relation_weights_) == 6
    with pytest.raises(DataError, match=r"attribute-similarity lacks attributes.*\.$"):
        fitted(make_view(30, 0, attributes="none"), relations="attribute-similarity")


def test_an_own_relation_that_knows_the_answer_gets_the_highest_weight() -> None:
    view = make_view(60, 0, known=1.0)
    answer = torch.from_numpy(view.labels)
    register_relation("oracle", lambda view: lambda nodes: (answer[nodes, None] == answer).float())
    try:
        sampler = fitted(view, SamplerConfig(), relations=["link", "jaccard", "oracle"])
    finally:
        forget_relation("oracle")
    best = sampler.relation_weights_[0]
    assert (best.relation, best.order, best.precision) == ("oracle", 1, 1.0)
    assert best.importance == max(w.importance for w in sampler.relation_weights_)
    assert sampler.positives(5).precision(view.labels) == 1.0


def test_relation_weights_go_to_json() -> None:
    for weight in fitted(make_view(30, 0)).relation_weights_:
        plain = json.loads(json.dumps(weight.to_json()))
        assert plain["relation"] == weight.relation
        assert plain["weights"] == list(weight.weights)
        assert set(plain) == {
            "relation",
            "order",
            "precision",
            "support",
            "w0",
            "w1",
            "importance",
            "weights",
        }


def test_a_second_fit_forgets_the_first() -> None:
    first, second = make_view(30, 0), make_view(45, 1)
    fresh = fitted(second)
    folds = label_folds(
        second,
        lambda u, v: second.labels[u][:, None] == second.labels[v],
        3,
        np.random.default_rng(0),
    )
    sampler = fitted(first)
    sampler.positives(3)
    sampler.fit_folds(second, folds)
    assert sampler.relation_weights_ == fresh.relation_weights_
    np.testing.assert_array_equal(sampler.positives(3).nodes, fresh.positives(3).nodes)


def test_progress_is_told_of_every_fold() -> None:
    view = make_view(40, 0)
    done: list[int] = []
    folds = link_folds(view, 4, np.random.default_rng(0))
    XGSampler("link").fit_folds(view, folds, progress=done.append)
    assert done == [1, 1, 1, 1]


@pytest.mark.parametrize("base", [0, 0.0, -1])
def test_the_base_score_may_be_a_whole_number(base: float) -> None:
    view = make_view(30, 0)
    sampler = fitted(view, SamplerConfig(base_score=base))
    assert sampler.positives(3).scores.dtype == np.float32
    assert sampler.stumps_.margins(np.zeros((1, 9), dtype=int)).dtype == np.float64
    assert sampler.explain(0, 1).base == base


def test_nothing_comes_before_fit() -> None:
    calls: list[Callable[[], object]] = [
        lambda: XGSampler().positives(3),
        lambda: XGSampler().explain(0, 1),
        lambda: XGSampler().probability(0, 1),
    ]
    for call in calls:
        with pytest.raises(NotFittedError, match=r"call fit first\.$"):
            call()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (SamplerConfig(quantiles=()), "quantiles"),
        (SamplerConfig(quantiles=(0.9, 0.5)), "quantiles"),
        (SamplerConfig(base_score="median"), "base_score='median'"),
        (SamplerConfig(base_score=math.nan), "base_score=nan"),
        (SamplerConfig(base_score=math.inf), "base_score=inf"),
        (SamplerConfig(sweeps=0), "sweeps=0"),
        (SamplerConfig(penalty=-1.0), "penalty=-1.0"),
        (SamplerConfig(penalty=math.nan), "penalty=nan"),
        (SamplerConfig(prior_pairs=-1), "prior_pairs=-1"),
        (SamplerConfig(tie_break="linc"), "linc.*link"),
        (SamplerConfig(cap=8, positive_only=False), "positive_only=False needs whole rows"),
        (SamplerConfig(cap=8, self_pairs=True), "self_pairs=True needs whole rows"),
        (SamplerConfig(cap=8, above_only=False), "above_only=False needs whole rows.* cap=8"),
    ],
)
def test_bad_settings_are_refused_in_a_sentence(settings: SamplerConfig, said: str) -> None:
    with pytest.raises(UsageError, match=rf"{said}.*\.$"):
        fitted(make_view(20, 0), settings)


def test_other_bad_wishes_are_refused_in_a_sentence() -> None:
    view = make_view(20, 0)
    wishes: list[tuple[Callable[[], object], str]] = [
        (lambda: fitted(view).positives(0), "number=0 must be"),
        (lambda: fitted(view, block_rows=-3), "block_rows=-3"),
        (lambda: fitted(view, block_rows=0), "block_rows=0"),
        (lambda: fitted(view, relations=["linc"]), "Did you mean 'link'"),
        (lambda: XGSampler().fit_folds(view, []), "fold"),
    ]
    for wish, said in wishes:
        with pytest.raises(XTCLError, match=rf"{said}.*\.$"):
            wish()


def test_paper_settings() -> None:
    assert SamplerConfig.paper() == SamplerConfig(
        (0.99,), 0.0, 1, 1.0, 0, None, printed_relations=True
    )


# Where the device has no room for a block it is halved, and nothing of the result changes.

ROOM = 9


NODES = 70


class Crowded(SimilarityRows):
    """Rows of which more than ROOM at a time do not fit."""

    asked: ClassVar[list[int]] = []

    def __call__(self, nodes: Tensor) -> Tensor:
        self.asked.append(len(nodes))
        if len(nodes) > ROOM:
            raise torch.OutOfMemoryError(f"no room for {len(nodes)} rows")
        return super().__call__(nodes)


@dataclass(frozen=True)
class Likeness(Relation):
    """The cosine of attributes, with or without room for it."""

    crowded: bool

    name: ClassVar[str] = "likeness"
    title: ClassVar[str] = "Likeness"
    reads: ClassVar[frozenset[str]] = frozenset({ATTRIBUTES})

    def prepare(self, view: TrainingView) -> Rows:
        return AttributeSimilarity().prepare(view)

    def on(self, view: TrainingView) -> SimilarityRows:
        kind = Crowded if self.crowded else SimilarityRows
        return kind(self.prepare(view), view.device, self.name, view.num_nodes, True)


def result(
    task: str,
    *,
    relations: list[Relation],
    cap: int | None = None,
    store: RelationStore | None = None,
    block_rows: int = 32,
) -> tuple[bytes, ...]:
    """Counts, positives and similarities of pairs, in blocks."""
    view = make_view(NODES, 1, attributes="signed")
    rng = np.random.default_rng(0)
    folds = label_folds(view, None, 3, rng) if task == "nodes" else link_folds(view, 3, rng)
    settings = SamplerConfig(quantiles=(0.7, 0.95), cap=cap)
    sampler = XGSampler(relations, settings, block_rows=block_rows, store=store).fit_folds(
        view, folds
    )
    found = sampler.positives(6, exclude=view.adjacency if task == "links" else None)
    pairs = sampler.similarities(rng.integers(NODES, size=(2, 50)))
    counts = sampler.counts_
    arrays = (counts.codes, counts.counts, found.nodes, found.scores, pairs)
    return tuple(array.tobytes() for array in arrays)


def with_likeness(*, crowded: bool) -> list[Relation]:
    """All relations of the paper; the last of them lacks room, so that the others have run."""
    return [*resolve_relations("paper"), Likeness(crowded)]


@pytest.mark.parametrize("task", ["nodes", "links"])
def test_counts_positives_and_similarities_stay_the_same(task: str) -> None:
    Crowded.asked.clear()
    plain = result(task, relations=with_likeness(crowded=False))
    assert result(task, relations=with_likeness(crowded=True)) == plain
    assert {32, 16, 8} <= set(Crowded.asked)


@pytest.mark.slow
@pytest.mark.parametrize("cap", [None, 5])
@pytest.mark.parametrize("block_rows", [32, 33, 38])  # halves that end with a block, or do not
def test_a_store_gets_every_row_once(block_rows: int, cap: int | None, tmp_path: Path) -> None:
    store = RelationStore(tmp_path)
    plain = result("nodes", relations=with_likeness(crowded=False), cap=cap)
    for crowded in (True, False):
        relations = with_likeness(crowded=crowded)
        found = result("nodes", relations=relations, cap=cap, store=store, block_rows=block_rows)
        assert found == plain
        assert list(tmp_path.glob("*.parquet"))


@pytest.mark.parametrize("task", ["nodes", "links"])
def test_lists_of_top_k_mode_too(task: str, monkeypatch: pytest.MonkeyPatch) -> None:
    relations = list(resolve_relations("paper"))
    plain = result(task, relations=relations, cap=5)
    original, asked = TopKRows.above, set()

    def crowded(rows: TopKRows, nodes: Tensor) -> Iterator[SparseRows]:
        asked.add(len(nodes))
        if len(nodes) > ROOM:
            raise torch.OutOfMemoryError
        return original(rows, nodes)

    monkeypatch.setattr(TopKRows, "above", crowded)
    assert result(task, relations=relations, cap=5) == plain
    assert {32, 16, 8} <= asked


def no_room_above(rows: int, asked: list[int]) -> Callable[[Tensor], list[int]]:
    def compute(nodes: Tensor) -> list[int]:
        asked.append(len(nodes))
        if len(nodes) > rows:
            raise torch.OutOfMemoryError("no room")
        found: list[int] = nodes.tolist()
        return found

    return compute


def test_the_smaller_height_stays() -> None:
    asked: list[int] = []
    found = list(run_in_blocks(no_room_above(3, asked), torch.arange(11), 8))
    assert found == [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9], [10]]
    assert asked == [8, 4, 2, 2, 2, 2, 2, 1]


def test_one_row_without_room_is_an_error() -> None:
    with pytest.raises(torch.OutOfMemoryError, match="no room"):
        list(run_in_blocks(no_room_above(0, []), torch.arange(5), 4))


def test_no_nodes_are_no_blocks() -> None:
    assert list(run_in_blocks(no_room_above(9, []), torch.arange(0), 4)) == []
