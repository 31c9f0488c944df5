"""The best few of every row of a relation, found without making the row where it is sparse."""
