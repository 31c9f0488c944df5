"""The size limit removes what was not used for longest."""

from __future__ import annotations

import os
import time
from pathlib import Path

from small_stores import QUANTILES, blocks, existing, files
from strategies import make_view

from xtcl.relations.pagerank import PageRank
from xtcl.relations.store.relation_store import ABANDONED_SECONDS, RelationStore

VIEW = make_view(40, 0)
ALPHAS = (0.5, 0.6, 0.7, 0.8)


def put(store: RelationStore, alpha: float) -> None:
    relation = PageRank(alpha)
    store.put(VIEW, relation, QUANTILES, blocks(VIEW, relation, QUANTILES))


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
    existing(store.get(VIEW, PageRank(0.5), QUANTILES)).close()
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
