"""Tables in: CSV, TSV and Parquet files, pandas and Polars frames, to a Graph."""
