"""From similarities to positives: patterns, the boosted stumps, cross-fitting, the best B."""
