"""Kernels for a GPU, where a profile asked for them; each has its plain version as oracle."""
