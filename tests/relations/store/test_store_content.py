"""What is read is what brute force finds, by any range and from any blocks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from small_stores import OURS, QUANTILES, blocks, brute_force, existing, files, listed, named
from strategies import make_view, views

from xtcl.errors import UsageError
from xtcl.relations.relation import Relation
from xtcl.relations.sparse import SparseRows
from xtcl.relations.store import parquet as pairs_file
from xtcl.relations.store.relation_store import RelationStore
from xtcl.relations.view import TrainingView


@pytest.fixture
def store(tmp_path: Path) -> RelationStore:
    return RelationStore(tmp_path / "store")


@pytest.mark.parametrize("relation", OURS, ids=lambda r: r.name)
def test_every_range_of_rows_is_what_brute_force_finds(
    relation: Relation, store: RelationStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pairs_file, "PAIRS_PER_GROUP", 40)  # several row groups
    view = make_view(30, 2)
    expected = brute_force(view, relation, QUANTILES)
    store.put(view, relation, QUANTILES, blocks(view, relation, QUANTILES))
    with existing(store.get(view, relation, QUANTILES)) as stored:
        assert stored.pairs == len(expected)
        for first in range(0, 31, 3):
            for last in range(first, 31):
                rows = stored.rows(first, last)
                assert rows.num_rows == last - first
                assert listed(rows, first) == [pair for pair in expected if first <= pair[0] < last]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(views(min_nodes=3), st.sampled_from(OURS))
def test_awkward_graphs(store: RelationStore, view: TrainingView, relation: Relation) -> None:
    if not relation.reads <= view.evidence:
        return
    store.put(view, relation, QUANTILES, blocks(view, relation, QUANTILES))
    with existing(store.get(view, relation, QUANTILES)) as stored:
        assert listed(stored.rows(0, view.num_nodes)) == brute_force(view, relation, QUANTILES)


def test_a_range_is_read_without_the_rest(
    store: RelationStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pairs_file, "PAIRS_PER_GROUP", 40)
    view, relation = make_view(60, 0), named("attribute-similarity")
    store.put(view, relation, QUANTILES, blocks(view, relation, QUANTILES))
    read = []
    original = pq.ParquetFile.read_row_group

    def counted(file: pq.ParquetFile, number: int, **given: object) -> object:
        read.append(number)
        return original(file, number, **given)

    monkeypatch.setattr(pq.ParquetFile, "read_row_group", counted)
    with existing(store.get(view, relation, QUANTILES)) as stored:
        stored.rows(20, 22)
        stored.rows(20, 22)
        assert 1 <= len(read) <= 2
        assert pq.ParquetFile(stored.path).num_row_groups > 5


def test_the_file_is_the_same_for_any_blocks(tmp_path: Path) -> None:
    view, relation = make_view(50, 1), named("pagerank")
    written = set()
    for height in (1, 7, 50):
        store = RelationStore(tmp_path / str(height))
        store.put(view, relation, QUANTILES, blocks(view, relation, QUANTILES, height))
        (path,) = files(store)
        written.add((path.name, path.read_bytes()))
    assert len(written) == 1


def test_it_is_plain_parquet(store: RelationStore) -> None:
    view, relation = make_view(40, 3), named("link")
    store.put(view, relation, QUANTILES, blocks(view, relation, QUANTILES))
    (path,) = files(store)
    table = pq.read_table(path)
    assert table.column_names == ["u", "v", "similarity", "level"]
    expected = brute_force(view, relation, QUANTILES)
    assert list(zip(*(column.to_pylist() for column in table.columns), strict=True)) == expected
    metadata = pq.ParquetFile(path).metadata
    assert metadata.row_group(0).column(0).compression == "ZSTD"


def test_polars_reads_it(store: RelationStore) -> None:
    polars = pytest.importorskip("polars")
    view, relation = make_view(40, 3), named("link")
    store.put(view, relation, QUANTILES, blocks(view, relation, QUANTILES))
    expected = brute_force(view, relation, QUANTILES)
    assert polars.read_parquet(store.folder / "*.parquet").rows() == expected


def test_rows_of_some_nodes(store: RelationStore) -> None:
    view, relation = make_view(40, 3), named("pagerank")
    nodes = np.array([3, 4, 17, 38])
    with store.open_or_compute(view, relation, QUANTILES, nodes) as stored:
        expected = [pair for pair in brute_force(view, relation, QUANTILES) if pair[0] in nodes]
        assert listed(stored.rows(0, 40)) == expected
    assert store.get(view, relation, QUANTILES) is None
    assert store.get(view, relation, QUANTILES, nodes[:3]) is None


def test_compute_only_what_is_missing(
    store: RelationStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    view, relation = make_view(40, 3), named("pagerank")
    with store.open_or_compute(view, relation, QUANTILES) as stored:
        first = listed(stored.rows(0, 40))
    assert first == brute_force(view, relation, QUANTILES)
    monkeypatch.setattr(type(relation), "prepare", None)
    with store.open_or_compute(view, relation, QUANTILES) as stored:
        assert listed(stored.rows(0, 40)) == first


def test_rows_that_do_not_exist_are_refused(store: RelationStore) -> None:
    view = make_view(20, 0)
    with store.open_or_compute(view, named("link"), QUANTILES) as stored:
        for first, last in ((-1, 3), (3, 2), (0, 21)):
            with pytest.raises(UsageError, match="do not exist"):
                stored.rows(first, last)


def test_missing_or_disordered_rows_are_refused_and_leave_nothing(store: RelationStore) -> None:
    view, relation = make_view(20, 0), named("link")
    parts = list(blocks(view, relation, QUANTILES, 5))
    for wrong in (parts[:-1], parts[1:], [parts[1], parts[0], *parts[2:]], [*parts, parts[0]]):
        with pytest.raises(UsageError, match="rows of"):
            store.put(view, relation, QUANTILES, wrong)
        assert files(store) == []
    store.put(
        view,
        relation,
        QUANTILES,
        [(np.arange(20), SparseRows.joined([rows for _, rows in parts]))],
    )
    assert len(files(store)) == 1


def test_a_negative_limit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="limit=-1 must be a number of bytes"):
        RelationStore(tmp_path, limit=-1)
