"""The likely graph, against all pairs one by one."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from strategies import make_view

from xtcl.config import SamplerConfig
from xtcl.relations.registry import make_relation, resolve_relations
from xtcl.relations.relation import Relation
from xtcl.relations.view import LABELS, TrainingView
from xtcl.sampling.folds import label_folds
from xtcl.sampling.likely_graph import (
    MIN_PROBABILITY,
    NUM_NEIGHBOURS,
    find_likely_links,
    label_free_sampler,
)
from xtcl.sampling.patterns import PatternCounts
from xtcl.sampling.xgsampler import XGSampler

COUNT = 26
SETTINGS = (SamplerConfig(), SamplerConfig(quantiles=(0.7, 0.95), sweeps=4, prior_pairs=10))
PAPER = resolve_relations("paper")
LABEL_FREE = [each for each in PAPER if LABELS not in each.reads]
READ_LABELS = [each for each in PAPER if LABELS in each.reads]

each_setting = pytest.mark.parametrize("place", range(len(SETTINGS)))


@cache
def view() -> TrainingView:
    return make_view(COUNT, seed=3, known=0.8)


def fitted(
    relations: list[Relation] | str, settings: SamplerConfig, on: TrainingView | None = None
) -> XGSampler:
    on = view() if on is None else on
    folds = label_folds(on, None, 3, np.random.default_rng(0))
    return XGSampler(relations, settings, random_state=5).fit_folds(on, folds)


@cache
def samplers(place: int) -> tuple[XGSampler, XGSampler]:
    """A sampler of all relations, and one that only ever knew those that read no label."""
    return fitted("paper", SETTINGS[place]), fitted(LABEL_FREE, SETTINGS[place])


def as_counter(table: PatternCounts) -> Counter[tuple[int, bool]]:
    found: Counter[tuple[int, bool]] = Counter()
    for code, (other, alike) in zip(table.codes.tolist(), table.counts.tolist(), strict=True):
        found[code, False] += other
        found[code, True] += alike
    return +found


def pairs_of(links: np.ndarray) -> list[tuple[int, int]]:
    return [(int(u), int(v)) for u, v in links.T]


@cache
def chances(place: int) -> np.ndarray:
    """f_u(v) of every pair, one after the other; 0 for a node that is no candidate."""
    alone = samplers(place)[1]
    found = np.zeros((COUNT, COUNT))
    for u in range(COUNT):
        for v in range(COUNT):
            why = alone.explain(u, v)
            if u != v and any(signal.level > 0 for signal in why.signals):
                found[u, v] = why.probability
    return found


def test_there_are_relations_of_both_kinds() -> None:
    assert LABEL_FREE
    assert READ_LABELS


@each_setting
def test_counts_and_weights_are_those_of_the_label_free_relations_alone(place: int) -> None:
    sampler, alone = samplers(place)
    free = label_free_sampler(sampler)
    assert free is not None
    assert [each.name for each in free.relations_] == [each.name for each in LABEL_FREE]
    assert as_counter(free.counts_) == as_counter(alone.counts_)
    assert sum(as_counter(free.counts_).values()) == sum(as_counter(sampler.counts_).values())
    np.testing.assert_allclose(free.stumps_.weights, alone.stumps_.weights, rtol=1e-12)
    assert free.stumps_.base == pytest.approx(alone.stumps_.base, rel=1e-12)
    assert (free.settings_, free.random_state_) == (sampler.settings_, sampler.random_state_)
    assert len(sampler.relations_) == len(PAPER)  # which is left as it was


@each_setting
@pytest.mark.parametrize("share", [0.3, 0.8])
def test_with_room_for_all_they_are_the_likely_pairs(place: int, share: float) -> None:
    sampler, f = samplers(place)[0], chances(place)
    different = np.unique(f[f > 0])
    at = int(share * (len(different) - 1))
    least = float(different[at : at + 2].mean())  # between two of them
    expected = {
        pair
        for u in range(COUNT)
        for v in range(COUNT)
        if f[u, v] >= least
        for pair in ((u, v), (v, u))
    }
    found = pairs_of(find_likely_links(sampler, COUNT, least))
    assert 0 < len(expected) < COUNT * (COUNT - 1)
    assert found == sorted(expected)


@each_setting
def test_a_chance_of_just_the_least_one_is_enough(place: int) -> None:
    sampler, alone = samplers(place)
    found = alone.positives(COUNT)
    least = float(found.probabilities.max())
    u, at = np.nonzero(found.probabilities == least)
    best = {(int(a), int(b)) for a, b in zip(u, found.nodes[u, at], strict=True)}
    assert best
    links = pairs_of(find_likely_links(sampler, COUNT, least))
    assert links == sorted(best | {(v, u) for u, v in best})
    more = float(np.nextafter(np.float32(least), np.float32(1)))
    assert find_likely_links(sampler, COUNT, more).shape == (2, 0)


@each_setting
@pytest.mark.parametrize(
    ("number", "least"), [(1, 0.0), (3, 0.4), (NUM_NEIGHBOURS, MIN_PROBABILITY)]
)
def test_each_node_gives_its_best_ones(place: int, number: int, least: float) -> None:
    sampler, alone = samplers(place)
    best = alone.positives(number)
    expected = set()
    for u in range(COUNT):
        for v, chance in zip(best.nodes[u].tolist(), best.probabilities[u].tolist(), strict=True):
            if v >= 0 and chance >= least:
                expected |= {(u, v), (v, u)}
    found = pairs_of(find_likely_links(sampler, number, least))
    assert found == sorted(expected)
    # Whatever the order of equals: what is better than the last of a node's best is there.
    f = chances(place)
    for u in range(COUNT):
        last = np.sort(f[u])[-number]
        for v in np.flatnonzero((f[u] > last + 1e-6) & (f[u] >= least + 1e-6)):
            assert (u, int(v)) in found


@each_setting
def test_usual_settings_symmetry_and_no_link_to_itself(place: int) -> None:
    sampler, _ = samplers(place)
    done: list[int] = []
    links = find_likely_links(sampler, progress=done.append)
    assert links.dtype == np.int64
    found = set(pairs_of(links))
    assert len(found) == links.shape[1]
    assert found == {(v, u) for u, v in found}
    assert not any(u == v for u, v in found)
    assert sum(done) == COUNT
    again = find_likely_links(sampler, NUM_NEIGHBOURS, MIN_PROBABILITY)
    np.testing.assert_array_equal(links, again)


def test_labels_reach_them_through_the_counts_alone() -> None:
    """With the same counts, other labels give the same links; as positives they would not."""
    sampler = samplers(0)[0]
    other = replace(view(), labels=np.roll(view().labels, 1), label_free_cache={})
    moved = XGSampler("paper", SETTINGS[0], random_state=5).restore(other, sampler.counts_)
    for number, least in ((NUM_NEIGHBOURS, MIN_PROBABILITY), (4, 0.2)):
        first, second = (find_likely_links(each, number, least) for each in (sampler, moved))
        np.testing.assert_array_equal(first, second)
    assert (sampler.positives(4).nodes != moved.positives(4).nodes).any()


def test_a_tie_break_that_reads_labels_reaches_no_likely_link() -> None:
    """With few thresholds most pairs are equal, so that ties decide which links there are."""
    few = SamplerConfig(quantiles=(0.5,), tie_break="attribute-label-distribution")
    assert LABELS in make_relation("attribute-label-distribution").reads
    sampler = fitted("paper", few)
    free = label_free_sampler(sampler)
    assert free is not None
    assert free.settings_ == replace(few, tie_break=None)
    assert sampler.settings_ == few
    other = replace(view(), labels=np.roll(view().labels, 1), label_free_cache={})
    moved = XGSampler("paper", few, random_state=5).restore(other, sampler.counts_)
    by_labels = [XGSampler(LABEL_FREE, few, random_state=5) for _ in range(2)]
    for number in (1, 3, NUM_NEIGHBOURS):
        first, second = (find_likely_links(each, number, 0.0) for each in (sampler, moved))
        np.testing.assert_array_equal(first, second)
        assert first.shape[1]
    # Which would not hold of a sampler of the same relations that has this tie-break.
    ties = [
        each.restore(on, free.counts_).positives(3).nodes
        for each, on in zip(by_labels, (view(), other), strict=True)
    ]
    assert (ties[0] != ties[1]).any()


def test_a_tie_break_that_reads_no_label_is_kept() -> None:
    free = label_free_sampler(samplers(0)[0])
    assert free is not None
    assert SETTINGS[0].tie_break is not None
    assert LABELS not in make_relation(SETTINGS[0].tie_break).reads
    assert free.settings_.tie_break == SETTINGS[0].tie_break


def test_without_a_relation_that_reads_no_label_there_are_none() -> None:
    sampler = fitted(READ_LABELS, SETTINGS[0])
    assert label_free_sampler(sampler) is None
    links = find_likely_links(sampler)
    assert links.shape == (2, 0)
    assert links.dtype == np.int64


def test_relations_that_the_data_do_not_suffice_for_are_left_out_here_too() -> None:
    bare = make_view(COUNT, seed=3, attributes="none")
    sampler = fitted("paper", SETTINGS[0], bare)
    assert sampler.left_out_
    free = label_free_sampler(sampler)
    assert free is not None
    usable = {each.name for each in sampler.relations_}
    assert [each.name for each in free.relations_] == [
        each.name for each in LABEL_FREE if each.name in usable
    ]
