"""The queries of docs/relation-store.md run as they stand, and agree with the store."""

from __future__ import annotations

import re
from pathlib import Path

import duckdb
import numpy as np
import pytest
from small_runs import small_graph

from xtcl.relations.link import Link
from xtcl.relations.pagerank import PageRank
from xtcl.relations.sparse import SparseRows
from xtcl.relations.store.parquet import StoredRelation
from xtcl.relations.store.relation_store import RelationStore, StoreEntry
from xtcl.relations.view import TrainingView

PAGE = (Path(__file__).parents[1] / "docs" / "relation-store.md").read_text(encoding="utf-8")
QUERIES = [
    query
    for block in re.findall(r"```sql\n(.*?)```", PAGE, flags=re.DOTALL)
    for query in re.split(r"(?<=;)\s+", block)
    if query
]
NODE = 42
"""The one that the page asks for."""


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RelationStore:
    monkeypatch.chdir(tmp_path)
    store = RelationStore(Path("relations"))
    view = TrainingView.of(small_graph())
    for relation, nodes in ((Link(), None), (PageRank(), None), (PageRank(), np.arange(9, 50))):
        store.open_or_compute(view, relation, (0.7, 0.9), nodes).close()
    return store


def rows_of(store: RelationStore, entry: StoreEntry) -> SparseRows:
    with StoredRelation(store.folder / entry.file) as stored:
        return stored.rows(0, stored.num_nodes)


def answers(query: str) -> list[tuple[object, ...]]:
    return duckdb.execute(query).fetchall()


def test_the_page_has_the_queries_that_are_tested_here() -> None:
    starts = ["SELECT filename", "-- which relation", "-- the nodes most alike"]
    assert len(QUERIES) == len(starts)
    assert all(query.startswith(start) for query, start in zip(QUERIES, starts, strict=True))


def test_pairs_nodes_and_mean_similarity_of_each_file(store: RelationStore) -> None:
    expected = []
    for entry in sorted(store.listing(), key=lambda entry: -entry.pairs):
        rows = rows_of(store, entry)
        name = f"relations/{entry.file}"
        mean = pytest.approx(rows.values.double().mean().item())
        expected.append((name, entry.pairs, len(np.unique(rows.row)), mean))
    assert answers(QUERIES[0]) == expected


def test_which_relation_is_in_which_file(store: RelationStore) -> None:
    expected = {(f"relations/{entry.file}", entry.relation) for entry in store.listing()}
    found = answers(QUERIES[1])
    assert set(found) == expected
    assert len(found) == len(expected)


def test_the_nodes_most_alike_to_one(store: RelationStore) -> None:
    for entry in store.listing():
        found = answers(QUERIES[2].replace("FILE.parquet", entry.file))
        rows = rows_of(store, entry).between(NODE, NODE + 1)
        columns = rows.to_numpy()[1:]
        expected = list(zip(*(column.tolist() for column in columns), strict=True))
        assert sorted(found) == sorted(expected)  # equals come in any order
        assert [row[1] for row in found] == sorted((row[1] for row in expected), reverse=True)
        assert found
