"""Results of a fitted model by node id: predictions, likely links, explanations, tables."""
