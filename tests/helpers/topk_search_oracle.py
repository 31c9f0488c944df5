"""The best of rows and of lists, found in plain Python."""

from __future__ import annotations

import itertools

import numpy as np
import scipy.sparse as sp
import torch
from dense import all_rows

from xtcl.relations.attribute_distribution import AttributeDistribution
from xtcl.relations.attribute_label_distribution import AttributeLabelDistribution
from xtcl.relations.cosine import cosine_rows
from xtcl.relations.relation import Relation, SimilarityRows
from xtcl.relations.sparse import SparseRows
from xtcl.relations.thresholds import levels
from xtcl.relations.topk import TINY, TopK, TopKSearch, topk_search
from xtcl.relations.view import TrainingView

Lists = list[list[tuple[int, float]]]


def expected(relation: Relation, view: TrainingView, quantile: float, cap: int) -> Lists:
    """(node, similarity) of each row's above set, the `cap` best by similarity, then node."""
    rows = torch.from_numpy(whole_rows(relation, view, cap))
    above = levels(rows, torch.arange(view.num_nodes), [quantile]) > 0
    lists = []
    for row, mask in zip(rows, above, strict=True):
        pairs = [(float(row[v]), int(v)) for v in torch.nonzero(mask)[:, 0]]
        best = sorted(pairs, key=lambda pair: (-pair[0], pair[1]))[:cap]
        lists.append(sorted((node, value) for value, node in best))
    return lists


def whole_rows(relation: Relation, view: TrainingView, cap: int) -> np.ndarray:
    """All similarities [V, V]; those of the attribute label distribution depend on the cap."""
    if type(relation) is not AttributeLabelDistribution:
        rows: np.ndarray = all_rows(relation, view)
        return rows
    above = np.zeros((view.num_nodes, view.num_nodes), dtype=np.float32)
    source = AttributeDistribution(relation.hops)
    for u, pairs in enumerate(expected(source, view, relation.quantile, cap)):
        for v, value in pairs:
            above[u, v] = value
    factors = torch.from_numpy(sp.csr_array(above) @ view.one_hot_labels())
    capped = SimilarityRows(cosine_rows(factors), view.device)
    return capped(torch.arange(view.num_nodes)).numpy()


def as_lists(found: SparseRows) -> Lists:
    """The same form for what was found."""
    values = found.values
    assert found.row.dtype == found.node.dtype == torch.int64
    assert values.dtype == torch.float32
    ends = found.start.tolist()
    pairs = list(zip(found.node.tolist(), values.tolist(), strict=True))
    assert ends[0] == 0
    assert ends[-1] == len(pairs)
    assert found.row.tolist() == sorted(found.row.tolist())
    return [pairs[a:b] for a, b in itertools.pairwise(ends)]


def nearest(relation: Relation, view: TrainingView, quantile: float, k: int) -> TopKSearch:
    """The search of top-k mode."""
    return topk_search(relation, view, TopK.of(quantile, k, view.num_nodes))


def best_of(pairs: list[tuple[int, float]], node: int, top: TopK) -> list[tuple[int, float]]:
    """The best of one list of (node, similarity), sorted by node."""
    others = [(v, value) for v, value in pairs if v != node and value >= TINY]
    ranked = sorted(others, key=lambda pair: (-pair[1], pair[0]))
    least = ranked[top.place - 1][1] if len(ranked) >= top.place else 0.0
    return sorted(pair for pair in ranked[: top.k] if pair[1] >= least)


def kth_of(pairs: list[tuple[int, float]], place: int) -> float:
    """The `place`-th largest similarity of one list, 0 where it is shorter."""
    values = sorted((value for _, value in pairs), reverse=True)
    return values[place - 1] if len(values) >= place else 0.0


def recall(found: SparseRows, expected: SparseRows) -> float:
    """Share of the expected pairs that were found."""
    pairs, wanted = (
        set(zip(part.row.tolist(), part.node.tolist(), strict=True)) for part in (found, expected)
    )
    return len(pairs & wanted) / len(wanted)
