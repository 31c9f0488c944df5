"""Tables in: CSV, TSV and Parquet files, pandas and Polars frames, to a Graph."""

from __future__ import annotations

from xtcl.graph.tables.read import read_tables

__all__ = ["read_tables"]
