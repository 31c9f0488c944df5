r"""The likely graph: links between nodes that the sampler holds for alike.

.. math:: E_+ = \{\{u, v\} \mid v \in \operatorname{top}_k(u), \; f_u(v) \ge c\}

Encoders pass messages over it, beside others that pass them over the given links: a loss over good
pairs cannot undo messages over links between nodes that differ. f is the sampler of the relations
that read no label, so that no label of a training node reaches the columns that its own head reads.
Its counts are those of the whole sampler, summed over the levels of the other relations: nothing is
counted again.

Related to Chen, Wu and Zaki, "Iterative Deep Graph Learning for Graph Neural Networks", NeurIPS
2020, who learn a graph of messages, too, but by gradients.

Cost: one pass over the rows of those relations, as for positives; O(k V) links.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from xtcl.relations.registry import make_relation
from xtcl.relations.view import LABELS
from xtcl.sampling.partial import TensorFiles
from xtcl.sampling.patterns import PatternCounts
from xtcl.sampling.xgsampler import XGSampler

NUM_NEIGHBOURS = 10
"""k: most likely neighbours of a node; others may have it among theirs."""

MIN_PROBABILITY = 0.6
"""c: the least f_u(v) of a link."""


def find_likely_links(
    sampler: XGSampler,
    number: int = NUM_NEIGHBOURS,
    min_probability: float = MIN_PROBABILITY,
    *,
    progress: Callable[[int], None] = lambda done: None,
    checkpoints: TensorFiles | None = None,
) -> np.ndarray:
    """Both directions of the likely links, int64 [2, n], in the order of the first node.

    `sampler` is fitted. Without a relation that reads no label there are none.
    """
    free = label_free_sampler(sampler)
    if free is None:
        return np.zeros((2, 0), dtype=np.int64)
    found = free.positives(number, progress=progress, checkpoints=checkpoints)
    u, place = np.nonzero(found.filled & (found.probabilities >= min_probability))
    v, num_nodes = found.nodes[u, place], len(found.nodes)
    keys = np.unique(np.concatenate([u * num_nodes + v, v * num_nodes + u]))
    return np.stack([keys // num_nodes, keys % num_nodes])


def label_free_sampler(sampler: XGSampler) -> XGSampler | None:
    """The stumps of the relations that read no label, fitted to the same pairs."""
    relations = sampler.relations_
    kept = [place for place, each in enumerate(relations) if LABELS not in each.reads]
    if not kept:
        return None
    settings = sampler.settings_
    if settings.tie_break is not None and LABELS in make_relation(settings.tie_break).reads:
        settings = replace(settings, tie_break=None)
    free = XGSampler(
        [relations[place] for place in kept],
        settings,
        block_rows=sampler.block_rows,
        random_state=sampler.random_state_,
        store=sampler.store,
    )
    return free.restore(sampler.view_, _counts_of(sampler, kept))


def _counts_of(sampler: XGSampler, kept: list[int]) -> PatternCounts:
    """The counts of the levels of some relations, whatever those of the others."""
    counts, base = sampler.counts_, len(sampler.settings_.quantiles) + 1
    levels = counts.levels(len(sampler.relations_), base - 1)[:, kept]
    codes = levels @ base ** np.arange(len(kept), dtype=np.int64)
    return PatternCounts.summed(codes, counts.counts)
