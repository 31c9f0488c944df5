"""What holds for every relation: the same bits however rows are asked for, and sound values."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from dense import all_rows, dense_adjacency, off_diagonal, relabelled
from hypothesis import given
from hypothesis import strategies as st
from strategies import make_graph, make_view, views
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from xtcl.relations import common_neighbours
from xtcl.relations import relation as relation_module
from xtcl.relations.attribute_distribution import AttributeDistribution
from xtcl.relations.attribute_label_distribution import AttributeLabelDistribution
from xtcl.relations.cosine import cosine_rows
from xtcl.relations.graph_distance import GraphDistance
from xtcl.relations.jaccard import Jaccard
from xtcl.relations.label_distribution import LabelDistribution
from xtcl.relations.pagerank import PageRank
from xtcl.relations.registry import PAPER_RELATIONS
from xtcl.relations.relation import Relation, SimilarityRows
from xtcl.relations.view import ATTRIBUTES, LABELS, LINKS, TrainingView

RELATIONS: tuple[Relation, ...] = (
    *(kind() for kind in PAPER_RELATIONS),
    PageRank(alpha=0.5),
    Jaccard(hops=2),
    AttributeDistribution(hops=2),
    LabelDistribution(hops=1),
    AttributeLabelDistribution(quantile=0.5),
)
every_relation = pytest.mark.parametrize("relation", RELATIONS, ids=repr)
devices = pytest.mark.parametrize("device", ["cpu", *["cuda"] * torch.cuda.is_available()])


@every_relation
@given(view=views(), data=st.data())
def test_rows_are_the_same_however_asked(
    relation: Relation, view: TrainingView, data: st.DataObject
) -> None:
    rows = relation.on(view)
    everything = rows(torch.arange(view.num_nodes))
    asked = data.draw(st.lists(st.integers(0, view.num_nodes - 1), min_size=1, max_size=5))
    assert torch.equal(rows(torch.tensor(asked)), everything[asked])


@every_relation
@devices
@pytest.mark.parametrize("seed", range(2))
def test_rows_of_several_tiles_are_the_same_however_asked(
    relation: Relation, device: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relation_module, "tile_rows", lambda device: 64)
    monkeypatch.setattr(relation_module, "PAIRS_PER_GPU_CALL", 100 * 150)
    monkeypatch.setattr(common_neighbours, "MAX_PATHS", 500)
    made = make_view(150 + 7 * seed, seed, attributes=["counts", "signed"][seed])
    view = dataclasses.replace(made, device=torch.device(device))
    rows = relation.on(view)
    everything = rows(torch.arange(view.num_nodes))
    order = torch.from_numpy(np.random.default_rng(seed).permutation(view.num_nodes)).to(device)
    assert torch.equal(rows(order), everything[order])
    assert torch.equal(rows(order[:67]), everything[order[:67]])
    assert torch.equal(
        torch.cat([rows(order[start : start + 11]) for start in range(0, len(order), 11)]),
        everything[order],
    )
    for node in order[:5]:
        assert torch.equal(rows(node[None]), everything[node[None]])


@pytest.mark.parametrize("columns", [1, 2, 3, 5, 6, 7, 9, 17, 33, 50, 65])
def test_a_row_has_the_same_bits_at_every_place_of_a_tile(columns: int) -> None:
    """A matrix product of an awkward shape rounds differently from place to place."""
    for count in (2, 5, 7, 10, 11, 13, 100):
        rng = np.random.default_rng(count)
        factors = rng.normal(size=(count, columns)).astype(np.float32)
        compute = cosine_rows(torch.from_numpy(factors))
        everything = SimilarityRows(compute, torch.device("cpu"))(torch.arange(count))
        places = torch.from_numpy(rng.integers(count, size=64))
        assert torch.equal(compute(places), everything[places])


@every_relation
@given(view=views())
def test_values_are_numbers_from_0_to_1(relation: Relation, view: TrainingView) -> None:
    rows = all_rows(relation, view)
    assert np.isfinite(rows).all()
    assert rows.min() >= 0
    assert rows.max() <= 1


@every_relation
@given(view=views())
def test_a_second_preparation_gives_the_same_bits(relation: Relation, view: TrainingView) -> None:
    again = dataclasses.replace(view, label_free_cache={}, attribute_cache={})
    np.testing.assert_array_equal(all_rows(relation, view), all_rows(relation, again))


@every_relation
@given(view=views(attributes=["zeros", "counts"], shapes=["star", "cycle", "random", "isolated"]))
def test_renaming_nodes_renames_rows_and_columns(relation: Relation, view: TrainingView) -> None:
    number = np.random.default_rng(view.num_nodes).permutation(view.num_nodes)
    expected = all_rows(relation, view)[np.ix_(number, number)]
    np.testing.assert_allclose(all_rows(relation, relabelled(view, number)), expected, atol=1e-6)


@every_relation
@given(view=views())
def test_is_symmetric_unless_pagerank(relation: Relation, view: TrainingView) -> None:
    rows = all_rows(relation, view)
    if not isinstance(relation, PageRank):
        np.testing.assert_allclose(rows, rows.T, atol=1e-6)


@every_relation
@given(view=views(shapes=["empty", "isolated", "random"]))
def test_isolated_nodes_are_like_nobody(relation: Relation, view: TrainingView) -> None:
    alone = dense_adjacency(view).sum(axis=1) == 0
    rows = off_diagonal(all_rows(relation, view))
    if LINKS in relation.reads:
        np.testing.assert_array_equal(rows[alone], 0)
        np.testing.assert_array_equal(rows[:, alone], 0)


@every_relation
@given(view=views(), seed=st.integers(0, 99))
def test_reads_only_what_it_says(relation: Relation, view: TrainingView, seed: int) -> None:
    """Other attributes, links or labels change nothing for a relation that does not read them."""
    graph = make_graph(view.num_nodes, seed, "dense", "signed")
    assert graph.labels is not None
    other = TrainingView(
        attributes=view.attributes if ATTRIBUTES in relation.reads else graph.attributes,
        adjacency=view.adjacency if LINKS in relation.reads else graph.adjacency,
        labels=view.labels if LABELS in relation.reads else graph.labels,
        num_classes=view.num_classes if LABELS in relation.reads else 4,
    )
    np.testing.assert_array_equal(all_rows(relation, view), all_rows(relation, other))


@every_relation
def test_labels_outside_the_view_are_never_read(relation: Relation) -> None:
    graph = make_graph(40, 1)
    known = np.arange(0, 40, 2)
    assert graph.labels is not None
    changed = graph.labels.copy()
    changed[1::2] = (changed[1::2] + 1) % 4
    here = all_rows(relation, TrainingView.of(graph, known))
    there = all_rows(relation, TrainingView.of(graph.with_labels(changed), known))
    np.testing.assert_array_equal(here, there)


class LargestTensor(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes how many entries the largest dense tensor has that torch makes."""

    entries = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        result = func(*args, **(kwargs or {}))
        if isinstance(result, Tensor) and result.layout == torch.strided:
            self.entries = max(self.entries, result.numel())
        return result


@pytest.mark.slow
@every_relation
def test_no_square_array_is_ever_made(relation: Relation) -> None:
    view = make_view(400, 0)
    with LargestTensor() as largest:  # type: ignore[no-untyped-call]
        rows = relation.on(view)
        for node in torch.arange(0, 400, 50):
            rows(node[None])
    # A list of the pairs of a tile has two entries for each.
    assert 400 <= largest.entries <= 2 * rows.tile * 400 < 400 * 400


@every_relation
def test_only_whole_tiles_are_computed(relation: Relation, monkeypatch: pytest.MonkeyPatch) -> None:
    heights = []
    on = Relation.on

    def watched(self: Relation, view: TrainingView) -> SimilarityRows:
        rows = on(self, view)

        def compute(nodes: Tensor) -> Tensor:
            heights.append(len(nodes))
            return rows.compute(nodes)

        return dataclasses.replace(rows, compute=compute)

    monkeypatch.setattr(Relation, "on", watched)
    rows = relation.on(make_view(70, 0))
    for asked in (1, 3, 64, 65, 70):
        assert rows(torch.arange(asked)).shape == (asked, 70)
    if isinstance(relation, GraphDistance):  # counts whole numbers, the same in any company
        assert heights == [1, 3, 64, 65, 70]
    else:
        assert set(heights) == {rows.tile}
    assert rows.tile == (32 if isinstance(relation, PageRank) else 64)


@pytest.mark.parametrize(("num_nodes", "rows"), [(100, 32), (2**15, 32), (40_000, 16), (10**6, 16)])
def test_fewer_columns_are_passed_over_at_a_time_where_they_are_long(
    num_nodes: int, rows: int
) -> None:
    def nothing(nodes: Tensor) -> Tensor:
        return torch.zeros(len(nodes), num_nodes)

    cpu = torch.device("cpu")
    assert SimilarityRows(nothing, cpu, num_nodes=num_nodes, by_columns=True).tile == rows
    assert SimilarityRows(nothing, cpu, num_nodes=num_nodes).tile == 64


def test_rows_do_not_hang_on_how_many_columns_are_passed_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    view = make_view(100, 0)
    expected = PageRank().on(view)(torch.arange(100))
    monkeypatch.setattr(relation_module, "VALUES_IN_CACHE", 1600)
    rows = PageRank().on(view)
    assert rows.tile == 16
    assert torch.equal(rows(torch.arange(100)), expected)
