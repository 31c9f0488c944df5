"""Bytes that the host of a GPU holds beside it.

Relations, training and heads work on the GPU. The host keeps the graph, the pairs that labels are
spread over, the tables of positives, and at the end the embedding for whoever asks.
"""

from __future__ import annotations

from xtcl.planning.relation_bytes import found_bytes, label_pairs_bytes
from xtcl.planning.workload import Workload

WITH_CUDA = round(2.2 * 2**30)
"""What Python, torch and PyG take with the libraries of CUDA, once all are loaded: no less than
two fits beside an H200, of 50,000 and a million nodes, leave when all else is taken off."""


def graph_bytes(work: Workload) -> int:
    """The graph, with the copy that is trained on."""
    return work.stored + 128 * work.edges + 64 * work.nodes


def host_peaks(work: Workload) -> tuple[int, int, int, int, int]:
    """The peaks of relations, positives, training, embedding and head."""
    start = WITH_CUDA + graph_bytes(work) + label_pairs_bytes(work)
    found = start + found_bytes(work)
    attributes = 4 * work.nodes * work.columns  # on their way to the GPU
    answers = 8 * 3 * work.nodes * work.classes
    return (
        start + max(attributes, label_pairs_bytes(work)),
        found,
        found + max(attributes, 32 * work.edges),
        found,
        found + 4 * work.nodes * work.width + answers,
    )
