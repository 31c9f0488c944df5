"""The nine semantic relations: similarities between nodes, computed a block of rows at a time."""
