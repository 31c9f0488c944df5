"""What is compared on what: the cells of the accuracy tables."""

from __future__ import annotations

SPLITS = {"cora": 10, "citeseer": 10, "pubmed": 5, "computers": 5, "photo": 5}
"""Splits from seed 0 by data set; a split of the first two moves a figure by 0.6."""

DATASETS = tuple(SPLITS)
TASKS = ("nodes", "links")
METHODS = ("xtcl-gcn", "xtcl-gat", "gcn", "gat", "propagation", "logistic")
