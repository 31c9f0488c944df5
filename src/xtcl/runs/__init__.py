"""Run directories: what a fit writes, and how it is read back."""
