"""A damaged file is noticed, set aside and computed again."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
from small_stores import (
    QUANTILES,
    blocks,
    brute_force,
    existing,
    files,
    level_blocks,
    listed,
    named,
    rows_of,
)
from strategies import make_view

from xtcl.relations.rows import DenseRows, all_nodes
from xtcl.relations.store import parquet as pairs_file
from xtcl.relations.store.parquet import DamagedFileError
from xtcl.relations.store.relation_store import RelationStore

VIEW, RELATION = make_view(40, 0), named("pagerank")
EXPECTED = brute_force(VIEW, RELATION, QUANTILES)


@pytest.fixture
def store(tmp_path: Path) -> RelationStore:
    store = RelationStore(tmp_path)
    store.put(VIEW, RELATION, QUANTILES, blocks(VIEW, RELATION, QUANTILES))
    return store


def read(store: RelationStore) -> list[tuple[int, int, float, int]] | None:
    stored = store.get(VIEW, RELATION, QUANTILES)
    if stored is None:
        return None
    with stored:
        return listed(stored.rows(0, VIEW.num_nodes))


def test_no_flipped_byte_goes_wrong_unnoticed(store: RelationStore) -> None:
    (path,) = files(store)
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
                found = read(store)
            except DamagedFileError:
                found = None
        assert found is None or found == EXPECTED  # some bytes of the format carry nothing
        if found is None:
            noticed += 1
            assert [file.name for file in files(store)] == [f"{path.name}.damaged"]
    assert noticed > len(places) / 2


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.999])
def test_a_file_cut_short_is_set_aside(store: RelationStore, share: float) -> None:
    (path,) = files(store)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    with pytest.warns(UserWarning, match=r"is damaged .*set aside as .*\.damaged.*computed anew"):
        assert read(store) is None
    assert [file.name for file in files(store)] == [f"{path.name}.damaged"]
    with store.open_or_compute(VIEW, RELATION, QUANTILES) as stored:
        assert listed(stored.rows(0, 40)) == EXPECTED
    assert path.read_bytes() == whole


def test_a_file_under_a_wrong_name_is_set_aside(store: RelationStore) -> None:
    (path,) = files(store)
    store.put(VIEW, named("link"), QUANTILES, blocks(VIEW, named("link"), QUANTILES))
    (link,) = set(files(store)) - {path}
    link.replace(path)
    with pytest.warns(UserWarning, match="its name is not that of its content"):
        assert read(store) is None


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
            for nodes in passing.blocks(all_nodes(40), height):
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


def test_the_new_file_in_the_place_of_a_damaged_one_stays(store: RelationStore) -> None:
    (path,) = files(store)
    path.write_bytes(damaged_values(path))
    with existing(store.get(VIEW, RELATION, QUANTILES)) as stored:
        store.put(VIEW, RELATION, QUANTILES, blocks(VIEW, RELATION, QUANTILES))
        with pytest.raises(DamagedFileError):
            stored.rows(0, 40)
    assert files(store) == [path]
    assert read(store) == EXPECTED


def test_an_open_file_stays_readable_when_it_is_removed(store: RelationStore) -> None:
    with existing(store.get(VIEW, RELATION, QUANTILES)) as stored:
        stored.path.unlink()
        assert listed(stored.rows(0, 40)) == EXPECTED


def test_listing_sets_damaged_files_aside(store: RelationStore) -> None:
    (path,) = files(store)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.warns(UserWarning, match="is damaged"):
        assert store.listing() == []


def test_a_folder_in_the_place_of_a_file_is_left_out_of_the_listing(store: RelationStore) -> None:
    (path,) = files(store)
    folder = path.with_name(f"{'0' * 64}.parquet")
    folder.mkdir()
    with pytest.warns(UserWarning, match=r"0\.parquet' .*cannot be read .*is left as it is"):
        (entry,) = store.listing()
    assert entry.file == path.name
    assert folder.is_dir()


def test_a_pass_goes_on_without_a_file_that_cannot_be_read(store: RelationStore) -> None:
    (path,) = files(store)
    path.unlink()
    path.mkdir()
    rows = DenseRows([RELATION], VIEW, QUANTILES, store)
    (wanted,) = DenseRows([RELATION], VIEW, QUANTILES).levels(all_nodes(40))
    with (
        pytest.warns(UserWarning, match="cannot be read"),
        pytest.warns(UserWarning, match="computed but not kept"),
        rows.over(all_nodes(40)) as passing,
    ):
        (found,) = passing.levels(all_nodes(40))
    assert found.equal(wanted)
    assert files(store) == [path]


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_what_is_not_the_stores_is_left_alone(store: RelationStore, kind: str) -> None:
    (path,) = files(store)
    foreign = store.folder / "nodes.parquet"
    foreign.write_bytes(path.read_bytes()) if kind == "file" else foreign.mkdir()
    with pytest.warns(UserWarning, match="'.*nodes.parquet' is no file of the relation store"):
        (entry,) = store.listing()
    assert entry.file == path.name
    RelationStore(store.folder, limit=0)  # whoever opens it evicts
    assert files(store) == [foreign]
