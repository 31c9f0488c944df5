"""The seconds of relations: positive, and in proportion to the rows of a fit."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import count

import pytest

from xtcl.graph.datasets.synthetic import block_model
from xtcl.planning.memory_plan import expected_sizes
from xtcl.planning.sizes import Sizes
from xtcl.planning.timing import relation_seconds
from xtcl.relations.link import Link
from xtcl.relations.pagerank import PageRank
from xtcl.tasks.training_data import TrainingData

GRAPH = block_model(300, num_attributes=16)
DATA = TrainingData(GRAPH)


def sizes(task: str = "nodes", cap: int | None = None) -> Sizes:
    known = expected_sizes(GRAPH, task, 0.5)
    sampler = replace(known.config.sampler, cap=cap)
    return replace(known, config=replace(known.config, sampler=sampler))


@pytest.fixture
def _every_call_takes_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    clock: Iterator[int] = count()
    monkeypatch.setattr(time, "perf_counter", lambda: float(next(clock)))


@pytest.mark.parametrize("task", ["nodes", "links"])
@pytest.mark.parametrize("cap", [None, 8])
def test_is_positive(task: str, cap: int | None) -> None:
    assert relation_seconds(DATA, sizes(task, cap)) > 0


@pytest.mark.parametrize("cap", [None, 8])
@pytest.mark.usefixtures("_every_call_takes_a_second")
def test_grows_with_the_rows(cap: int | None) -> None:
    known = sizes(cap=cap)
    twice = replace(known, nodes=2 * known.nodes, labelled=2 * known.labelled)
    once, more = relation_seconds(DATA, known), relation_seconds(DATA, twice)
    # Seven relations read no labels. Label distribution is prepared for five folds, too. Attribute
    # label distribution is timed as one of each kind.
    prepared = (7 + 1) + (1 + 1) * 6
    assert more - prepared == pytest.approx(2 * (once - prepared))


@pytest.mark.usefixtures("_every_call_takes_a_second")
def test_only_the_given_relations_are_timed() -> None:
    known = sizes()
    rows = (known.queries + known.nodes) / 64
    assert relation_seconds(DATA, known, [Link()]) == pytest.approx(rows + 1)
    assert relation_seconds(DATA, known, [Link(), PageRank()]) == pytest.approx(2 * (rows + 1))


@pytest.mark.usefixtures("_every_call_takes_a_second")
def test_of_links_the_labels_are_not_read() -> None:
    # Of seven relations six read links, and are prepared for every fold; all of that twice.
    known = sizes("links")
    rows = 2 * (known.queries + known.nodes) / 64
    folds = known.config.crossfit
    link_relations = 6
    prepared = 2 * (7 + folds * link_relations)
    assert relation_seconds(DATA, known) == pytest.approx(7 * rows + prepared)
