"""What a fit will take, and how it is kept within a memory budget: decided before any work."""
