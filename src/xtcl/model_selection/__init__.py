"""Comparisons: every method on the same splits, in one run."""
