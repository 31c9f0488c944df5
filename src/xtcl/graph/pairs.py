"""Pairs of nodes: canonical order, keys to compare them by, and draws of pairs without a link."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from xtcl.errors import DataError, UsageError
from xtcl.graph.validation import IntArray

NodePair = IntArray
"""Shape [2, n]: pair i joins nodes [0, i] and [1, i]."""


def generator(seed: int) -> np.random.Generator:
    """A generator of our own, so that the global random state neither matters nor changes."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise UsageError(f"seed must be a whole number from 0 on, not {seed!r}.")
    return np.random.default_rng(int(seed))


def draw_non_links(
    links: NodePair, num_nodes: int, want: int, rng: np.random.Generator
) -> NodePair:
    """A uniform sample, in random order, of `want` pairs that are not among the canonical `links`.

    Rejection sampling, except where links and sample together fill an eighth of all pairs; there
    listing every pair costs no more. So the cost is O((E + want) log(E + want)) on any graph.
    """
    taken = pair_keys(links, num_nodes)
    if count_pairs(num_nodes) <= 8 * (taken.size + want):
        everything = pair_keys(np.stack(np.triu_indices(num_nodes, k=1)), num_nodes)
        free = np.setdiff1d(everything, taken, assume_unique=True)
        return unpack_keys(rng.permutation(free)[:want], num_nodes)

    def draw(count: int) -> IntArray:
        ends = np.sort(rng.integers(num_nodes, size=(2, count)), axis=0)
        keys = pair_keys(ends[:, ends[0] != ends[1]], num_nodes)
        return keys[~pairs_among(keys, taken)]

    return unpack_keys(distinct(draw, want), num_nodes)


def distinct(draw: Callable[[int], IntArray], want: int) -> IntArray:
    """The first `want` different keys of an endless stream, in the order they came.

    `draw(n)` gives the stream's next keys, about n of them; the stream must be able to give `want`
    different ones. Where it is uniform, this is a uniform sample without replacement, and costs
    O(want log want) as long as the stream can give many more than `want`.
    """
    keys = np.empty(0, dtype=np.int64)
    while keys.size < want:
        keys = np.concatenate([keys, draw(2 * (want - keys.size) + 64)])
        _, first = np.unique(keys, return_index=True)
        keys = keys[np.sort(first)]
    return keys[:want]


def canonical_pairs(pairs: ArrayLike) -> NodePair:
    """Smaller end first, sorted; duplicates and loops stay, for `check_no_leak` to find."""
    array = np.asarray(pairs)
    if array.size == 0:
        return np.empty((2, 0), dtype=np.int64)
    if array.ndim != 2 or array.shape[0] != 2 or not np.issubdtype(array.dtype, np.integer):
        raise DataError(
            f"Node pairs must be whole numbers of shape [2, n], not {array.dtype} of shape "
            f"{list(array.shape)}."
        )
    ends = np.sort(array.astype(np.int64), axis=0)
    return ends[:, np.lexsort((ends[1], ends[0]))]


def pair_keys(pairs: NodePair, num_nodes: int) -> IntArray:
    """`u * V + v` for canonical pairs: sorted where they are; exact up to 3e9 nodes."""
    keys: IntArray = pairs[0] * num_nodes + pairs[1]
    return keys


def unpack_keys(keys: IntArray, num_nodes: int) -> NodePair:
    """The pairs that `pair_keys` made into `keys`."""
    return np.stack(np.divmod(keys, num_nodes)) if keys.size else np.empty((2, 0), dtype=np.int64)


def count_pairs(num_nodes: int) -> int:
    """V (V - 1) / 2, the number of undirected pairs."""
    return num_nodes * (num_nodes - 1) // 2


def pairs_among(keys: IntArray, known: IntArray) -> NDArray[np.bool_]:
    """Which keys are in the sorted `known`; faster than `np.isin`, which sorts both again."""
    if known.size == 0:
        return np.zeros(keys.size, dtype=np.bool_)
    places = np.minimum(np.searchsorted(known, keys), known.size - 1)
    among: NDArray[np.bool_] = known[places] == keys
    return among
