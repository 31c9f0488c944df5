"""How close every node is to those it should be close to."""

from __future__ import annotations

import numpy as np

from xtcl.report.page.facts import RunFacts

POSITIVES = 5
"""The best of a node's positives, which are looked at and shown."""
BLOCK = 2**14
"""Pairs whose embeddings are multiplied at a time."""


def closeness(facts: RunFacts) -> np.ndarray:
    """Mean cosine [V] of a node's embedding with its neighbours and best positives; 0 without."""
    edges = facts.graph.edges
    best = facts.positives[:, :POSITIVES]
    row, place = np.nonzero(best >= 0)
    u = np.concatenate([edges[0], edges[1], row])
    v = np.concatenate([edges[1], edges[0], best[row, place]])
    lengths = np.maximum(np.linalg.norm(facts.embedding, axis=1), 1e-12)
    total = np.zeros(len(lengths))
    for start in range(0, len(u), BLOCK):
        left, right = u[start : start + BLOCK], v[start : start + BLOCK]
        products = np.einsum("ij,ij->i", facts.embedding[left], facts.embedding[right])
        np.add.at(total, left, products / (lengths[left] * lengths[right]))
    return np.asarray(total / np.maximum(np.bincount(u, minlength=len(lengths)), 1))
