"""Strategies: positives as in a plain listing, mixtures, limits, and pairs for one's own loop."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from dense import all_rows
from sklearn.base import clone
from small_runs import small_graph, small_model, small_split

from xtcl.config import FIXED_RULES, SamplerConfig
from xtcl.errors import DataError, NotFittedError, UsageError
from xtcl.estimator import XTCL
from xtcl.graph.datasets.synthetic import block_model
from xtcl.graph.graph import Graph
from xtcl.relations.registry import resolve_relations
from xtcl.relations.sparse import within_hops
from xtcl.relations.view import LABELS, TrainingView
from xtcl.sampling.patterns import PatternCounts
from xtcl.sampling.strategies import (
    STRATEGIES,
    AllLabelPositives,
    LearnedPositives,
    MixedPositives,
    NaivePositives,
    PositiveSource,
    PositiveStrategy,
    PositiveTable,
    SameLabelPositives,
    UniformPositives,
    make_strategy,
)
from xtcl.sampling.xgsampler import XGSampler
from xtcl.tasks.training_data import TrainingData

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


def source_of(side: TrainingData = TINY, seed: int = 0, **limits: Any) -> PositiveSource:
    """A sampler that has learned nothing."""
    # On so few nodes the 99th percentile would leave one node above; the last quantile counts.
    sampler = XGSampler(settings=SamplerConfig(quantiles=(0.3, 0.85)))
    view = TrainingView.of(side.graph, side.labelled)
    sampler.restore(view, PatternCounts(np.zeros(0, np.int64), np.zeros((0, 2), int)))
    return PositiveSource(sampler, seed, **limits)


def table_of(strategy: PositiveStrategy, number: int = 4000, **given: Any) -> np.ndarray:
    return strategy.table(source_of(**given), number).nodes


def near(side: TrainingData, relations_with_labels: bool = False) -> Listing:
    """From the formula: a relation that has somebody above, then somebody above."""
    view = TrainingView.of(side.graph, side.labelled)
    listing: Listing = []
    relations = resolve_relations("paper")
    if not relations_with_labels:
        relations = tuple(r for r in relations if LABELS not in r.reads)
    assert len(relations) == (9 if relations_with_labels else 7)
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


def mixed(parts: list[tuple[float, Listing]]) -> Listing:
    """From the formula: a part by its share among those that have a positive, then a positive."""
    listing: Listing = []
    for u in range(30):
        there = [(share, part[u]) for share, part in parts if part[u]]
        whole = sum(share for share, _ in there)
        chances: dict[int, float] = {}
        for share, part in there:
            for v, chance in part.items():
                chances[v] = chances.get(v, 0.0) + share / whole * chance
        listing.append(chances)
    return listing


def check_draws(table: np.ndarray, expected: Listing, draws: int = 4000) -> None:
    assert table.shape == (30, draws)
    for u, chances in enumerate(expected):
        drawn = Counter(table[u].tolist())
        if not chances:
            assert drawn == {-1: draws}
            continue
        assert drawn.keys() == chances.keys()
        for v, chance in chances.items():
            error = (chance * (1 - chance) / draws) ** 0.5
            assert abs(drawn[v] / draws - chance) <= 5 * error + 1e-9


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        (UniformPositives(), near(TINY)),
        (UniformPositives("all"), near(TINY, relations_with_labels=True)),
        (SameLabelPositives(), alike(TINY.labels)),
        (AllLabelPositives(TRUTH), alike(TRUTH)),
        (NaivePositives(), labels_first(TINY.labels, TINY)),
    ],
    ids=["uniform", "uniform-all", "same-label", "all-labels", "naive"],
)
def test_positives_are_those_of_a_plain_listing(
    strategy: PositiveStrategy, expected: Listing
) -> None:
    check_draws(table_of(strategy), expected)


@pytest.mark.parametrize("shares", [None, (3.0, 1.0)])
def test_a_mixture_is_that_of_a_plain_listing(shares: tuple[float, ...] | None) -> None:
    strategy = MixedPositives(["same-label", UniformPositives()], shares)
    first, second = shares or (1.0, 1.0)
    # A part draws from its own table, where a node is as often as its chance.
    table, number = table_of(strategy, 20_000), 20_000
    expected = mixed([(first, alike(TINY.labels)), (second, near(TINY))])
    for u, chances in enumerate(expected):
        drawn = Counter(table[u].tolist())
        assert drawn.keys() == (chances.keys() or {-1})
        for v, chance in chances.items():
            assert abs(drawn[v] / number - chance) < 0.03


def test_the_awkward_nodes_are_where_the_listing_says() -> None:
    # So that the tests above cannot pass without them.
    assert not near(TINY)[29]
    assert near(TINY)[28]
    assert not alike(TINY.labels)[5]
    assert alike(TINY.labels)[0]
    uniform, same = table_of(UniformPositives()), table_of(SameLabelPositives())
    assert (same[12:] == -1).all()
    assert (table_of(NaivePositives())[5] == uniform[5]).all()
    assert (table_of(NaivePositives())[0] == same[0]).all()


@pytest.mark.parametrize("strategy", [UniformPositives(), SameLabelPositives()])
def test_pairs_that_are_excluded_or_far_are_no_positives(strategy: PositiveStrategy) -> None:
    links = TINY.graph.adjacency
    unlinked = np.asarray(links.todense() == 0)
    near_by = within_hops(links, 2).todense() > 0
    table = table_of(strategy, exclude=sp.csr_array(links), hops=2)
    u, place = np.nonzero(table >= 0)
    assert len(u)
    assert unlinked[u, table[u, place]].all()
    assert near_by[u, table[u, place]].all()
    free = table_of(strategy)
    u, place = np.nonzero(free >= 0)
    assert not unlinked[u, free[u, place]].all()
    assert not near_by[u, free[u, place]].all()


def test_a_relation_without_allowed_nodes_leaves_its_places_to_the_others() -> None:
    # Link has linked nodes only, and all of them are excluded.
    table = table_of(UniformPositives(), exclude=sp.csr_array(TINY.graph.adjacency))
    assert (table[:28] >= 0).all()


@pytest.mark.parametrize("rows", [1, 7])
def test_draws_are_the_same_in_blocks_of_any_height(rows: int) -> None:
    whole = table_of(UniformPositives(), 50)
    source = source_of()
    source.sampler.block_rows = rows
    np.testing.assert_array_equal(UniformPositives().table(source, 50).nodes, whole)


def test_lists_that_hold_all_that_is_above_give_the_same_draws_with_a_cap() -> None:
    source = source_of()
    capped = XGSampler(settings=replace(source.sampler.settings_, cap=29))
    capped.restore(source.sampler.view_, source.sampler.counts_)
    table = UniformPositives().table(replace(source, sampler=capped), 50).nodes
    np.testing.assert_array_equal(table, table_of(UniformPositives(), 50))
    short = XGSampler(settings=replace(source.sampler.settings_, cap=1))
    short.restore(source.sampler.view_, source.sampler.counts_)
    table = UniformPositives().table(replace(source, sampler=short), 200).nodes
    assert max(len(set(row)) for row in table.tolist()) <= 7  # one of each relation


@pytest.mark.parametrize("name", [name for name in STRATEGIES if name != "all-labels"])
def test_another_seed_draws_others(name: str) -> None:
    graph = block_model(60, num_classes=3, num_attributes=12, seed=4)
    tables = [make_strategy(name).fit(graph, seed=seed).positives_ for seed in (1, 1, 2)]
    np.testing.assert_array_equal(tables[0], tables[1])
    assert (tables[0] != tables[2]).any()


def test_uniform_positives_know_no_label() -> None:
    other = TrainingData(TINY.graph.with_labels(np.roll(TINY.labels, 7)))
    uniform, same = UniformPositives(), SameLabelPositives()
    np.testing.assert_array_equal(table_of(uniform, side=other), table_of(uniform))
    assert (table_of(same, side=other) != table_of(same)).any()


def test_learned_positives_are_those_of_the_sampler() -> None:
    graph = block_model(60, num_classes=3, num_attributes=12, seed=4)
    sampler = XGSampler().fit(graph)
    candidates = sampler.positives(8)
    everything = LearnedPositives().fit(sampler=sampler, number=8)
    np.testing.assert_array_equal(everything.positives_, candidates.nodes)
    likely = LearnedPositives(min_probability=0.7).fit(sampler=sampler, number=8)
    kept = candidates.probabilities >= 0.7
    share = kept[candidates.filled].mean()
    assert 0 < share < 1
    kept[:, 0] = True
    np.testing.assert_array_equal(likely.positives_, np.where(kept, candidates.nodes, -1))
    source = PositiveSource(sampler, min_probability=0.7)
    assert LearnedPositives().table(source, 8).trust == pytest.approx(max(share, 1 / 8))
    near_by = LearnedPositives(hops=1).fit(sampler=sampler, number=8).positives_
    u, place = np.nonzero(near_by >= 0)
    assert (graph.adjacency.todense()[u, near_by[u, place]] > 0).all()


def test_trust_of_a_mixture_is_the_mean_by_shares() -> None:
    source = PositiveSource(XGSampler(crossfit=2).fit(TINY.graph), min_probability=0.9)
    alone = LearnedPositives().table(source, 10).trust
    both = MixedPositives(["learned", "uniform"], [3, 1]).table(source, 10).trust
    assert alone < 1
    assert both == pytest.approx(0.75 * alone + 0.25)


# In a training loop of one's own


def test_an_epoch_has_every_node_with_a_positive_once() -> None:
    strategy = SameLabelPositives().fit(TINY.graph, number=6)
    anchors, pairs = [], set()
    for u, v in strategy.batches(4, per_anchor=3, seed=1):
        assert len(u) <= 4
        assert v.shape == (len(u), 3)
        anchors += u.tolist()
        pairs |= {(a, b) for a, row in zip(u.tolist(), v.tolist(), strict=True) for b in row}
    has = (strategy.positives_ >= 0).any(axis=1)
    assert sorted(anchors) == np.flatnonzero(has).tolist()
    assert anchors != sorted(anchors)
    assert all(b in strategy.positives_[a] and b >= 0 for a, b in pairs)
    again = torch.cat([u for u, _ in strategy.batches(4, per_anchor=3, seed=1)])
    assert again.tolist() == anchors


def test_batches_need_a_fit() -> None:
    with pytest.raises(NotFittedError, match="fit"):
        next(UniformPositives().batches())


def test_labels_of_ones_own_take_the_place_of_the_graphs() -> None:
    graph = block_model(60, num_classes=3, num_attributes=12, seed=4)
    labels = np.array(["a", "b", None] * 20, dtype=object)
    found = SameLabelPositives().fit(graph, labels).positives_
    assert (found[2::3] == -1).all()
    assert (found[0::3] % 3 == 0).all()
    assert (found[1::3] % 3 == 1).all()


# In a fit


class Next(PositiveStrategy):
    """The next nodes by number, one of them twice."""

    name = "next"

    def __init__(self, step: int = 1) -> None:
        self.step = step

    def table(self, source: PositiveSource, number: int) -> PositiveTable:
        nodes = np.arange(source.num_nodes)[:, None] + self.step
        source.progress(len(nodes))
        return PositiveTable(np.repeat(nodes % len(nodes), number, axis=1))


def test_a_strategy_of_ones_own_is_used_saved_and_cloned(tmp_path: Any) -> None:
    graph = small_graph()
    model = small_model(positives=Next(2))
    assert clone(model).positives.step == 2
    model.fit(graph)
    assert (model.positives_ == (np.arange(80)[:, None] + 2) % 80).all()
    assert model.recipe_.strategy == "next"
    model.save(tmp_path / "run")
    read = XTCL.load(tmp_path / "run")
    np.testing.assert_array_equal(read.positives_, model.positives_)
    assert read.predict().tolist() == model.predict().tolist()
    with pytest.raises(UsageError, match="There is no strategy 'next'"):
        read.fit(graph)


@pytest.mark.parametrize("name", ["uniform", "uniform-all", "same-label", "naive"])
def test_the_estimator_takes_a_strategy_by_name(name: str) -> None:
    graph = small_graph()
    split = small_split(graph, "nodes")
    by_name = small_model(positives=name).fit(graph, split)
    by_object = small_model(positives=make_strategy(name)).fit(graph, split)
    np.testing.assert_array_equal(by_name.positives_, by_object.positives_)
    assert by_name.recipe_.strategy == name
    assert by_name.embedding_.tobytes() == by_object.embedding_.tobytes()
    assert len(by_name.relation_weights_) == 9


def test_limits_of_a_strategy_are_those_of_the_recipe() -> None:
    config = small_model(positives=LearnedPositives(0.5, hops=2)).resolved_recipe()
    assert (config.min_probability, config.hops, config.positives) == (0.5, 2, 20)
    for recipe, least in ((None, 0.0), (FIXED_RULES, 0.8)):
        config = small_model(positives="learned+uniform", recipe=recipe).resolved_recipe()
        assert (config.strategy, config.min_probability) == ("learned+uniform", least)


def test_links_take_strategies_too() -> None:
    graph = small_graph()
    split = small_split(graph, "links")
    model = small_model("links", positives="uniform").fit(graph, split)
    linked = model.training_data_.graph.adjacency.todense()
    u, place = np.nonzero(model.positives_ >= 0)
    assert (linked[u, model.positives_[u, place]] == 0).all()
    with pytest.raises(DataError, match="has no labels, and these positives"):
        small_model("links", positives="same-label").fit(graph, split)


@pytest.mark.parametrize(
    ("name", "kind"),
    [("learned+uniform", None), ("0.7*learned+0.3*uniform", (0.7, 0.3))],
)
def test_names_of_mixtures_are_read(name: str, kind: tuple[float, ...] | None) -> None:
    strategy = make_strategy(name)
    assert isinstance(strategy, MixedPositives)
    assert strategy.shares == (None if kind is None else list(kind))
    assert strategy.name == name
    assert strategy.learns


@pytest.mark.parametrize(
    ("positives", "sentence"),
    [
        ("uniforn", "There is no strategy 'uniforn'. Did you mean 'uniform'"),
        ("learned+x", "There is no strategy 'x'"),
        ("learned+0.5*uniform", "shares in positives='learned.0.5.uniform' cannot be read"),
        (0.5, "positives=0.5 must be a number, a name"),
        ([3], "must be a number, a name"),
        (UniformPositives("some"), "relations='some' must be 'label-free' or 'all'"),
        (MixedPositives(["learned"]), "needs two strategies at least"),
        (MixedPositives(["learned", "uniform"], [1]), "one number above 0 for each of the 2"),
        (MixedPositives(["learned", "uniform"], [1, -1]), "one number above 0"),
        (UniformPositives(hops=0), "hops=0 must be"),
        (UniformPositives(hops="a"), "hops='a' must be a whole number of at least 1"),  # type: ignore[arg-type]
        (LearnedPositives(min_probability="a"), "min_probability='a' must be a number"),  # type: ignore[arg-type]
        (MixedPositives(["learned", 3]), "3 cannot be a part of a mixture"),  # type: ignore[list-item]
        (MixedPositives("learned"), "needs two strategies at least, in a list"),
        (MixedPositives(["learned", "uniform"], ["a", "b"]), "one number above 0"),  # type: ignore[list-item]
        (True, "positives=True must be a number, a name"),
        (AllLabelPositives(), "needs the true labels of all nodes"),
        (AllLabelPositives(["a"] * 80), "contradict those of the training data"),
    ],
    ids=str,
)
def test_what_is_no_strategy_is_named(positives: Any, sentence: str) -> None:
    with pytest.raises((UsageError, DataError), match=sentence):
        small_model(positives=positives).fit(small_graph())


class Wrong(PositiveStrategy):
    """Returns what it was given."""

    name = "wrong"

    def __init__(self, nodes: Any = None) -> None:
        self.nodes = nodes

    def table(self, source: PositiveSource, number: int) -> PositiveTable:
        return PositiveTable(np.asarray(self.nodes))


class Unnamed(PositiveStrategy):
    """Has no name, and returns what it was given."""

    def __init__(self, returned: Any = None) -> None:
        self.returned = returned

    def table(self, source: PositiveSource, number: int) -> PositiveTable:
        return self.returned  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("strategy", "sentence"),
    [
        (Wrong(np.zeros(80, int)), r"'wrong' returned an array of shape \[80\]"),
        (Wrong(np.zeros((79, 2), int)), r"'wrong' returned an array of shape \[79, 2\]"),
        (Wrong(np.full((80, 2), 1.7)), "'wrong' returned an array of .* float64"),
        (Wrong(np.full((80, 2), 999)), "'wrong' returned an array"),
        (Unnamed(), r"'Unnamed' returned a NoneType: return PositiveTable\(nodes\)"),
        (Unnamed(np.zeros((80, 2), int)), "'Unnamed' returned a ndarray"),
        (Unnamed(PositiveTable([[1], [2, 3]])), "'Unnamed' cannot be read as an array"),  # type: ignore[arg-type]
    ],
)
def test_a_table_that_cannot_be_used_is_refused(strategy: PositiveStrategy, sentence: str) -> None:
    with pytest.raises((UsageError, DataError), match=sentence):
        small_model(positives=strategy).fit(small_graph())
    for alone in (strategy, MixedPositives([strategy, "uniform"])):
        with pytest.raises((UsageError, DataError), match=sentence):
            alone.fit(small_graph())


def test_a_name_that_is_no_text_is_refused() -> None:
    strategy = Unnamed(PositiveTable(np.zeros((80, 2), int)))
    assert strategy.fit(small_graph()).name == "Unnamed"
    strategy.name = 3  # type: ignore[misc, assignment]
    with pytest.raises(UsageError, match="The name of the strategy Unnamed is 3"):
        strategy.fit(small_graph())


UNFITTED: dict[str, Any] = {"sampler": XGSampler()}


@pytest.mark.parametrize(
    ("strategy", "given", "sentence"),
    [
        (UniformPositives(), {"number": "a"}, "number='a' must be a whole number of at least 1"),
        (UniformPositives(), {"number": -1}, "number=-1 must be"),
        (UniformPositives(), {"seed": None}, "seed=None must be"),
        (UniformPositives(), {"sampler": "x"}, "sampler='x' must be a fitted XGSampler"),
        (UniformPositives(), UNFITTED, "XGSampler is not fitted yet"),
        (UniformPositives(hops=0), {}, "hops=0 must be a whole number"),
        (LearnedPositives(min_probability=3), {}, "min_probability=3 must be a number from 0 to 1"),
    ],
)
def test_what_cannot_be_fitted_is_a_sentence(
    strategy: PositiveStrategy, given: dict[str, Any], sentence: str
) -> None:
    with pytest.raises((UsageError, NotFittedError), match=sentence):
        strategy.fit(small_graph(), **given)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"size": 0}, "size=0 must be a whole number of at least 1"),
        ({"size": -1}, "size=-1 must be"),
        ({"size": "a"}, "size='a' must be"),
        ({"per_anchor": -1}, "per_anchor=-1 must be"),
        ({"seed": None}, "seed=None must be"),
    ],
)
def test_what_is_no_batch_is_a_sentence(given: dict[str, Any], sentence: str) -> None:
    strategy = SameLabelPositives().fit(TINY.graph, number=3)
    with pytest.raises(UsageError, match=sentence):
        strategy.batches(**given)


@pytest.mark.parametrize("form", [torch.tensor, list, np.asarray])
def test_the_truth_of_the_ceiling_may_be_a_tensor_or_a_list(form: Any) -> None:
    known = table_of(AllLabelPositives(TRUTH), 5)
    np.testing.assert_array_equal(table_of(AllLabelPositives(form(TRUTH)), 5), known)


def test_a_table_without_positives_is_refused() -> None:
    with pytest.raises(DataError, match="The strategy 'wrong' finds no positive for any node"):
        small_model(positives=Wrong(np.full((80, 2), -1))).fit(small_graph())


def test_drawn_positives_are_ready_for_the_loss() -> None:
    from xtcl import contrastive_loss

    strategy = UniformPositives().fit(TINY.graph, number=6)
    z = torch.randn(30, 4, generator=torch.Generator().manual_seed(0))
    for u, v in strategy.batches(16):
        value = contrastive_loss(z, v, torch.arange(10), anchors=u)
        assert torch.isfinite(value)


def test_parameters_are_checked_before_any_work(monkeypatch: pytest.MonkeyPatch) -> None:
    def fit(*given: object, **options: object) -> XGSampler:
        raise AssertionError("the sampler was fitted")

    monkeypatch.setattr(XGSampler, "fit", fit)
    sampler: Any = XGSampler()
    for strategy in (
        LearnedPositives(sampler),
        MixedPositives([LearnedPositives(sampler), "naive"]),
    ):
        with pytest.raises(
            UsageError, match=r"min_probability=XGSampler\(\) must be a number from"
        ):
            strategy.fit(small_graph(40))
    with pytest.raises(UsageError, match="hops=0 must be a whole number of at least 1"):
        UniformPositives(hops=0).fit(small_graph(40))
