"""Encoders: modules that turn `(x, edge_index)` into embeddings."""
