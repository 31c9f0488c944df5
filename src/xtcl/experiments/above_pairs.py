"""The pairs of nodes that a relation counts as alike, and what they tell about the labels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from scipy.special import rel_entr

from xtcl.errors import DataError
from xtcl.graph.graph import Graph
from xtcl.relations.block_height import block_height
from xtcl.relations.pattern_rows import PatternRows, all_nodes, usable
from xtcl.relations.registry import resolve_relations
from xtcl.relations.relation import Relation
from xtcl.relations.thresholds import PAPER_QUANTILES, check_quantiles
from xtcl.relations.view import TrainingView


@dataclass(frozen=True)
class AbovePairs:
    """For every node u the nodes v with s_r(u, v) above u's threshold, least similar first."""

    starts: np.ndarray  # int64 [V + 1]: where each node's row begins in `others`
    others: np.ndarray  # int64 [n]

    def of(self, node: int) -> np.ndarray:
        """The nodes above for `node`."""
        return self.others[self.starts[node] : self.starts[node + 1]]

    @property
    def nodes(self) -> np.ndarray:
        """The node u of every pair, as `others` are its v."""
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))

    def among(self, chosen: np.ndarray) -> AbovePairs:
        """The pairs with both ends among the nodes of a mask."""
        kept = chosen[self.nodes] & chosen[self.others]
        return _from_rows(self.nodes[kept], self.others[kept], len(chosen))


def above_pairs(
    graph: Graph,
    relation: str | Relation,
    *,
    quantile: float = PAPER_QUANTILES[0],
    device: torch.device | str = "cpu",
) -> AbovePairs:
    """The pairs above the row quantile of a relation, which sees all labels of `graph`.

    Above is what the sampler takes it for: s >= eta and s > 0. Cost O(V^2), a block at a time.
    """
    (chosen,) = resolve_relations([relation])
    labelled = () if graph.labels is None else graph.labels >= 0
    view = TrainingView.of(graph, labelled, device)
    _, lacking = usable([chosen], view)
    if lacking:
        raise DataError(
            f"Relation '{chosen.name}' needs {' and '.join(lacking[chosen.name])}, which graph "
            f"'{graph.name}' does not have: choose another relation."
        )
    rows = PatternRows([chosen], view, check_quantiles([quantile]))
    nodes, others = [], []
    for block in rows.blocks(all_nodes(graph.num_nodes), block_height(graph.num_nodes)):
        ((similarities, level),) = rows(block)
        above = level > 0
        row, column = (index.cpu().numpy() for index in above.nonzero(as_tuple=True))
        order = np.lexsort((similarities[above].cpu().numpy(), row))
        nodes.append(block.cpu().numpy()[row[order]])
        others.append(column[order])
    return _from_rows(np.concatenate(nodes), np.concatenate(others), graph.num_nodes)


def label_information(labels: np.ndarray, pairs: AbovePairs) -> float:
    r"""I(Y; S_r) of the paper, in nats: how much a relation tells about the labels.

    The paper gives no estimator. It asks whether knowing s_r(u, v) informs the probability of
    y_u = y_v, and a pair is above for r or not, so this is the mutual information of two bits,

    .. math:: I\big(\mathbb{1}[y_u = y_v];\; \mathbb{1}[s_r(u, v) \text{ above}]\big),

    over all ordered pairs of different nodes whose labels are known (-1 is unknown). Cost O(n + V)
    for n pairs above: the others are counted by subtraction.
    """
    known = labels >= 0
    listed = pairs.among(known)
    sizes = np.bincount(labels[known])
    total, alike = known.sum() * (known.sum() - 1), np.sum(sizes * (sizes - 1))
    if total == 0:
        return 0.0
    above = len(listed.others)
    both = np.sum(labels[listed.nodes] == labels[listed.others])
    joint = np.array([[total - alike - above + both, alike - both], [above - both, both]]) / total
    independent = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0)
    return max(float(rel_entr(joint, independent).sum()), 0.0)


def _from_rows(nodes: np.ndarray, others: np.ndarray, num_nodes: int) -> AbovePairs:
    """Pairs that are listed node by node."""
    sizes = np.bincount(nodes, minlength=num_nodes)
    return AbovePairs(np.concatenate([[0], np.cumsum(sizes)]), others)
