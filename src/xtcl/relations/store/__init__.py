"""The relation store: above pairs kept as a folder of Parquet files."""

from __future__ import annotations

from xtcl.relations.store.parquet import StoredRelation
from xtcl.relations.store.relation_store import RelationStore, StoreEntry

__all__ = ["RelationStore", "StoreEntry", "StoredRelation"]
