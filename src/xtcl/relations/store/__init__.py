"""The relation store: above pairs kept as a folder of Parquet files."""

from xtcl.relations.store.relation_store import RelationStore, StoreEntry
from xtcl.relations.store.stored_relation import StoredRelation

__all__ = ["RelationStore", "StoreEntry", "StoredRelation"]
