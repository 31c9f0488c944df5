"""The relation store: what it holds, its limit, and damaged files."""

from __future__ import annotations

import os
import time
import warnings
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from small_stores import (
    OURS,
    QUANTILES,
    blocks,
    brute_force,
    existing,
    files,
    level_blocks,
    listed,
    named,
    open_or_compute,
    rows_of,
)
from strategies import make_view, views

from xtcl.errors import UsageError
from xtcl.relations.pagerank import PageRank
from xtcl.relations.relation import Relation
from xtcl.relations.rows import DenseRows, all_nodes
from xtcl.relations.sparse import SparseRows
from xtcl.relations.store import parquet as pairs_file
from xtcl.relations.store.parquet import DamagedFileError
from xtcl.relations.store.relation_store import ABANDONED_SECONDS, RelationStore
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
    if not relation.reads <= view.available:
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
    with open_or_compute(store, view, relation, QUANTILES, nodes) as stored:
        expected = [pair for pair in brute_force(view, relation, QUANTILES) if pair[0] in nodes]
        assert listed(stored.rows(0, 40)) == expected
    assert store.get(view, relation, QUANTILES) is None
    assert store.get(view, relation, QUANTILES, nodes[:3]) is None


def test_compute_only_what_is_missing(
    store: RelationStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    view, relation = make_view(40, 3), named("pagerank")
    with open_or_compute(store, view, relation, QUANTILES) as stored:
        first = listed(stored.rows(0, 40))
    assert first == brute_force(view, relation, QUANTILES)
    monkeypatch.setattr(type(relation), "prepare", None)
    with open_or_compute(store, view, relation, QUANTILES) as stored:
        assert listed(stored.rows(0, 40)) == first


def test_rows_that_do_not_exist_are_refused(store: RelationStore) -> None:
    view = make_view(20, 0)
    with open_or_compute(store, view, named("link"), QUANTILES) as stored:
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


# A damaged file is noticed, set aside and computed again.

VIEW, RELATION = make_view(40, 0), named("pagerank")


EXPECTED = brute_force(VIEW, RELATION, QUANTILES)


@pytest.fixture
def store_damage(tmp_path: Path) -> RelationStore:
    store = RelationStore(tmp_path)
    store.put(VIEW, RELATION, QUANTILES, blocks(VIEW, RELATION, QUANTILES))
    return store


def read(store: RelationStore) -> list[tuple[int, int, float, int]] | None:
    stored = store.get(VIEW, RELATION, QUANTILES)
    if stored is None:
        return None
    with stored:
        return listed(stored.rows(0, VIEW.num_nodes))


def test_no_flipped_byte_goes_wrong_unnoticed(store_damage: RelationStore) -> None:
    (path,) = files(store_damage)
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    noticed = 0
    places = {0, 5, len(whole) - 1, len(whole) - 6, *rng.integers(0, len(whole), 200).tolist()}
    for place in places:
        damaged = bytearray(whole)
        damaged[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                found = read(store_damage)
            except DamagedFileError:
                found = None
        assert found is None or found == EXPECTED  # some bytes of the format carry nothing
        if found is None:
            noticed += 1
            assert [file.name for file in files(store_damage)] == [f"{path.name}.damaged"]
    assert noticed > len(places) / 2


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.999])
def test_a_file_cut_short_is_set_aside(store_damage: RelationStore, share: float) -> None:
    (path,) = files(store_damage)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    with pytest.warns(UserWarning, match=r"is damaged .*set aside as .*\.damaged.*computed anew"):
        assert read(store_damage) is None
    assert [file.name for file in files(store_damage)] == [f"{path.name}.damaged"]
    with open_or_compute(store_damage, VIEW, RELATION, QUANTILES) as stored:
        assert listed(stored.rows(0, 40)) == EXPECTED
    assert path.read_bytes() == whole


def test_a_file_under_a_wrong_name_is_set_aside(store_damage: RelationStore) -> None:
    (path,) = files(store_damage)
    store_damage.put(VIEW, named("link"), QUANTILES, blocks(VIEW, named("link"), QUANTILES))
    (link,) = set(files(store_damage)) - {path}
    link.replace(path)
    with pytest.warns(UserWarning, match="its name is not that of its content"):
        assert read(store_damage) is None


def damaged_values(path: Path) -> bytes:
    """Damage what a row group holds, so that opening the file does not notice."""
    content = bytearray(path.read_bytes())
    content[len(content) // 4] ^= 255
    return bytes(content)


@pytest.mark.parametrize("cap", [None, 3], ids=["exact", "capped"])
@pytest.mark.parametrize("height", [7, 40])
def test_a_pass_goes_on_when_a_file_is_damaged(
    tmp_path: Path, height: int, cap: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pairs_file, "PAIRS_PER_GROUP", 40)  # several groups: some were read by then
    store = RelationStore(tmp_path / "passes")
    rows = rows_of([RELATION], VIEW, QUANTILES, store, cap)
    expected = rows_of([RELATION], VIEW, QUANTILES, None, cap)

    def run() -> None:
        with rows.over(all_nodes(40)) as passing:
            for nodes in torch.split(all_nodes(40), height):
                (found,) = level_blocks(passing, nodes)
                (wanted,) = level_blocks(expected, nodes)
                assert found.equal(wanted)

    run()
    (path,) = files(store)
    whole = path.read_bytes()
    path.write_bytes(damaged_values(path))
    with pytest.warns(UserWarning, match="is damaged"):
        run()
    assert path.read_bytes() == whole
    assert path.with_name(f"{path.name}.damaged") in files(store)


def test_the_new_file_in_the_place_of_a_damaged_one_stays(store_damage: RelationStore) -> None:
    (path,) = files(store_damage)
    path.write_bytes(damaged_values(path))
    with existing(store_damage.get(VIEW, RELATION, QUANTILES)) as stored:
        store_damage.put(VIEW, RELATION, QUANTILES, blocks(VIEW, RELATION, QUANTILES))
        with pytest.raises(DamagedFileError):
            stored.rows(0, 40)
    assert files(store_damage) == [path]
    assert read(store_damage) == EXPECTED


def test_an_open_file_stays_readable_when_it_is_removed(store_damage: RelationStore) -> None:
    with existing(store_damage.get(VIEW, RELATION, QUANTILES)) as stored:
        stored.path.unlink()
        assert listed(stored.rows(0, 40)) == EXPECTED


def test_listing_sets_damaged_files_aside(store_damage: RelationStore) -> None:
    (path,) = files(store_damage)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.warns(UserWarning, match="is damaged"):
        assert store_damage.listing() == []


def test_a_folder_in_the_place_of_a_file_is_left_out_of_the_listing(
    store_damage: RelationStore,
) -> None:
    (path,) = files(store_damage)
    folder = path.with_name(f"{'0' * 64}.parquet")
    folder.mkdir()
    with pytest.warns(UserWarning, match=r"0\.parquet' .*cannot be read .*is left as it is"):
        (entry,) = store_damage.listing()
    assert entry.file == path.name
    assert folder.is_dir()


def test_a_pass_goes_on_without_a_file_that_cannot_be_read(store_damage: RelationStore) -> None:
    (path,) = files(store_damage)
    path.unlink()
    path.mkdir()
    rows = DenseRows([RELATION], VIEW, QUANTILES, store_damage)
    (wanted,) = DenseRows([RELATION], VIEW, QUANTILES).levels(all_nodes(40))
    with (
        pytest.warns(UserWarning, match="cannot be read"),
        pytest.warns(UserWarning, match="computed but not stored"),
        rows.over(all_nodes(40)) as passing,
    ):
        (found,) = passing.levels(all_nodes(40))
    assert found.equal(wanted)
    assert files(store_damage) == [path]


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_what_is_not_the_stores_is_left_alone(store_damage: RelationStore, kind: str) -> None:
    (path,) = files(store_damage)
    foreign = store_damage.folder / "nodes.parquet"
    foreign.write_bytes(path.read_bytes()) if kind == "file" else foreign.mkdir()
    with pytest.warns(UserWarning, match="'.*nodes.parquet' is no file of the relation store"):
        (entry,) = store_damage.listing()
    assert entry.file == path.name
    RelationStore(store_damage.folder, limit=0)  # whoever opens it evicts
    assert files(store_damage) == [foreign]


# The size limit removes what was not used for longest.

VIEW_LIMIT = make_view(40, 0)


ALPHAS = (0.5, 0.6, 0.7, 0.8)


def put(store: RelationStore, alpha: float) -> None:
    relation = PageRank(alpha)
    store.put(VIEW_LIMIT, relation, QUANTILES, blocks(VIEW_LIMIT, relation, QUANTILES))


def alphas(store: RelationStore) -> list[float]:
    return [entry.parameters["alpha"] for entry in store.listing()]


def filled(folder: Path) -> RelationStore:
    """One file for each alpha, used an hour after another."""
    store = RelationStore(folder)
    for hour, alpha in enumerate(ALPHAS):
        before = set(files(store))
        put(store, alpha)
        (path,) = set(files(store)) - before
        moment = time.time() - 3600 * (len(ALPHAS) - hour)
        os.utime(path, (moment, moment))
    return store


def size(store: RelationStore) -> int:
    return sum(path.stat().st_size for path in files(store))


def test_the_listing_says_what_there_is(tmp_path: Path) -> None:
    store = filled(tmp_path)
    found = store.listing()
    assert alphas(store) == [0.8, 0.7, 0.6, 0.5]
    for entry in found:
        assert (entry.relation, entry.nodes, entry.rows) == ("pagerank", 40, "all")
        assert entry.quantiles == QUANTILES
        assert entry.bytes == (tmp_path / entry.file).stat().st_size
        assert entry.pairs > 40
    assert RelationStore(tmp_path / "nothing").listing() == []


def test_least_recently_used_first(tmp_path: Path) -> None:
    store = filled(tmp_path)
    existing(store.get(VIEW_LIMIT, PageRank(0.5), QUANTILES)).close()
    assert alphas(store) == [0.5, 0.8, 0.7, 0.6]
    total = size(store)
    RelationStore(tmp_path, limit=total).evict()
    assert len(files(store)) == 4
    RelationStore(tmp_path, limit=total - 1).evict()
    assert alphas(store) == [0.5, 0.8, 0.7]
    RelationStore(tmp_path, limit=total // 2)  # whoever opens it evicts
    assert alphas(store) in ([0.5, 0.8], [0.5])
    assert size(store) <= total // 2
    RelationStore(tmp_path, limit=0).evict()
    assert files(store) == []


def test_writing_keeps_the_limit_but_never_removes_what_was_just_written(tmp_path: Path) -> None:
    store = filled(tmp_path)
    limited = RelationStore(tmp_path, limit=size(store))
    put(limited, 0.9)
    assert alphas(store)[0] == 0.9
    assert 0.5 not in alphas(store)
    assert size(store) <= (limited.limit or 0)
    put(RelationStore(tmp_path, limit=0), 0.95)
    assert alphas(store) == [0.95]


def test_damaged_files_and_what_dead_writers_left_go_too(tmp_path: Path) -> None:
    store = filled(tmp_path)
    (tmp_path / f"{'0' * 64}.parquet.damaged").write_bytes(b"?")
    fresh, old = (tmp_path / f".{name * 64}.parquet.1.tmp" for name in "ab")
    for path in (fresh, old):
        path.write_bytes(b"half")
    moment = time.time() - ABANDONED_SECONDS - 60
    os.utime(old, (moment, moment))
    (tmp_path / "notes.txt").write_text("not ours")
    store.evict()
    assert not old.exists()
    assert len(files(store)) == 7
    RelationStore(tmp_path, limit=0).evict()
    assert {path.name for path in files(store)} == {fresh.name, "notes.txt"}
