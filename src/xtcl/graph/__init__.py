"""The graph: one validated object, and the ways into and out of it."""
