r"""Labels bent towards one relation: Algorithm 2 (Appendix C) of the paper.

A walk over the pairs that are above for a relation hands labels from node to node, until
:math:`p` nodes are perturbed. As printed the algorithm cannot run: the first node goes into
:math:`\mathcal{V}'`, the set of perturbed nodes, and never onto the stack, which stays empty. We
read it so:

* The first node goes onto the stack. When the stack runs empty, another random node does.
* The most similar node lies on top; the paper names no order.
* A perturbed node's label is fixed. As printed, a later node may overwrite it, which undoes the
  agreement that the walk was made for.
* A node is perturbed when it is taken from the stack. A label handed to a node that is still there
  when the walk ends is withdrawn, so that exactly p nodes are perturbed and all others keep their
  labels. As printed, p = 500 with q = 1 changes about 1,460 labels of Cora.

**What comes of it depends on the labels it starts from.** The paper asks for a relation that tells
nothing about them. Then the information (`label_information`) grows with p, unless q is so near 1
that one label takes everything. But Cora's labels agree on 69 % of the pairs above for the
attribute distribution, the paper's choice, and to copy the label of one neighbour lowers that; so
it does for each of the nine relations, and in every order and manner of overwriting that we tried.
The rule "vote", which is ours, does there what the paper is after. Information on Cora in 1e-4
nats, and in brackets the labels changed in percent, means over three seeds:

==============  ====  ===========  ===========  ===========  ===========
p                  0          270          812         1354         2708
==============  ====  ===========  ===========  ===========  ===========
copy, q = 0.5   66.2  57.7  (4.2)  45.6 (13.3)  37.8 (21.9)  22.2 (47.8)
copy, q = 1     66.2  47.0  (8.5)  26.1 (26.0)  13.1 (43.5)   0.2 (83.3)
vote, q = 0.5   66.2  67.6  (0.8)  69.9  (2.1)  72.3  (3.8)  77.8  (9.1)
vote, q = 1     66.2  69.5  (1.7)  74.9  (4.4)  80.2  (7.8)  95.0 (19.2)
==============  ====  ===========  ===========  ===========  ===========
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
import torch
from scipy.special import rel_entr

from xtcl.errors import DataError, UsageError
from xtcl.graph.graph import Graph
from xtcl.graph.pairs import generator
from xtcl.graph.splits import NodeSplit
from xtcl.lab.experiments.drawing import Value, conditions, curves_of, curves_table, draw_curves
from xtcl.lab.experiments.experiment import (
    Context,
    Experiment,
    Plain,
    Record,
    Run,
    Selection,
    select_names,
)
from xtcl.lab.experiments.learning_curve import run_node_method
from xtcl.model_selection.evaluation import make_split
from xtcl.relations.blocks import rows_per_block
from xtcl.relations.registry import resolve_relations
from xtcl.relations.relation import Relation
from xtcl.relations.rows import DenseRows, all_nodes, usable_relations
from xtcl.relations.sparse import SparseRows
from xtcl.relations.thresholds import PAPER_QUANTILES, check_quantiles
from xtcl.relations.view import TrainingView
from xtcl.report.charts import page, picture, table

Rule = Literal["copy", "vote"]


def perturb_labels(
    graph: Graph,
    pairs: SparseRows,
    number: int,
    *,
    ratio: float = 0.5,
    rule: Rule = "copy",
    seed: int = 0,
) -> Graph:
    """The graph with the labels of `number` nodes (p) decided by the pairs above for a relation.

    With "copy" every perturbed node hands its label on to each node above for it with the chance
    `ratio` (q, the collective ratio, which the paper leaves open). With "vote" it takes the most
    common label of the nodes above for it with that chance. A label that is decided may be the old
    one: no more than `number` change. Nodes without a label take no part.

    With the same seed a greater number perturbs the same nodes in the same way, and others besides.
    """
    known = np.zeros(graph.num_nodes, bool) if graph.labels is None else graph.labels >= 0
    if graph.labels is None or not 0 <= number <= known.sum():
        raise DataError(
            f"{number} labels cannot be perturbed in graph '{graph.name}', which has {known.sum()} "
            "labelled nodes: choose a number from 0 to that."
        )
    if not 0 <= ratio <= 1:
        raise UsageError(f"ratio={ratio} must be between 0 and 1.")
    if rule not in ("copy", "vote"):
        raise UsageError(f"rule={rule!r} must be 'copy' or 'vote'.")
    rng = generator(seed)
    above = least_similar_first(above_among(pairs, known))
    order = visiting_order(above, rng.permutation(np.flatnonzero(known)), number)
    decide = copied if rule == "copy" else voted
    return graph.with_labels(decide(graph.labels, above, order, ratio, rng))


def visiting_order(above: Sequence[np.ndarray], starts: np.ndarray, number: int) -> list[int]:
    """The first `number` nodes of the walk; `starts` are the nodes to go on from, in turn."""
    visited = np.zeros(len(above), dtype=bool)
    fresh = iter(starts.tolist())
    order: list[int] = []
    stack: list[int] = []
    while len(order) < number:
        node = stack.pop() if stack else next(fresh)
        if not visited[node]:
            visited[node] = True
            order.append(node)
            stack.extend(above[node].tolist())
    return order


def copied(
    labels: np.ndarray,
    above: Sequence[np.ndarray],
    order: list[int],
    ratio: float,
    rng: np.random.Generator,
) -> np.ndarray:
    """Each node of `order` hands its label on; the last one to do so before its turn counts."""
    new = labels.copy()
    fixed = np.zeros(len(labels), dtype=bool)
    for node in order:
        fixed[node] = True
        others = above[node]
        reached = (rng.random(len(others)) < ratio) & ~fixed[others]
        new[others[reached]] = new[node]
    return np.where(fixed, new, labels)


def voted(
    labels: np.ndarray,
    above: Sequence[np.ndarray],
    order: list[int],
    ratio: float,
    rng: np.random.Generator,
) -> np.ndarray:
    """Each node of `order` takes the commonest label above it; its own, or else the first, ties."""
    new = labels.copy()
    for node, chance in zip(order, rng.random(len(order)), strict=True):
        votes = np.bincount(new[above[node]], minlength=new[node] + 1)
        if chance < ratio and votes[new[node]] < votes.max():
            new[node] = votes.argmax()
    return new


def above_among(pairs: SparseRows, chosen: np.ndarray) -> SparseRows:
    """The pairs with both ends among the nodes of a mask."""
    mask = torch.from_numpy(chosen)
    return pairs.where(mask[pairs.row] & mask[pairs.node])


def least_similar_first(pairs: SparseRows) -> list[np.ndarray]:
    """The nodes above for each node; equals in the order of their numbers."""
    order = np.lexsort((pairs.values.numpy(), pairs.row.numpy()))
    return np.split(pairs.node.numpy()[order], pairs.start[1:-1].numpy())


def above_pairs(
    graph: Graph,
    relation: str | Relation,
    *,
    quantile: float = PAPER_QUANTILES[0],
    device: torch.device | str = "cpu",
) -> SparseRows:
    """The pairs above the row quantile of a relation, which sees all labels of `graph`.

    Above is what the sampler takes it for: s >= eta and s > 0. The pairs are on the CPU. Cost
    O(V^2), a block at a time.
    """
    (chosen,) = resolve_relations([relation])
    labelled = () if graph.labels is None else graph.labels >= 0
    view = TrainingView.of(graph, labelled, device)
    _, lacking = usable_relations([chosen], view)
    if lacking:
        raise DataError(
            f"Relation '{chosen.name}' needs {' and '.join(lacking[chosen.name])}, which graph "
            f"'{graph.name}' does not have: choose another relation."
        )
    rows = DenseRows([chosen], view, check_quantiles([quantile]))
    found = []
    for block in rows.blocks(all_nodes(graph.num_nodes), rows_per_block(graph.num_nodes)):
        ((similarities, level),) = rows(block)
        found.append(SparseRows.of_levels(level, similarities).to(torch.device("cpu")))
    return SparseRows.joined(found)


def label_information(labels: np.ndarray, pairs: SparseRows) -> float:
    r"""I(Y; S_r) of the paper, in nats: how much a relation tells about the labels.

    The paper gives no estimator. It asks whether knowing s_r(u, v) informs the probability of
    y_u = y_v, and a pair is above for r or not, so this is the mutual information of two bits,

    .. math:: I\big(\mathbb{1}[y_u = y_v];\; \mathbb{1}[s_r(u, v) \text{ above}]\big),

    over all ordered pairs of different nodes whose labels are known (-1 is unknown). Cost O(n + V)
    for n pairs above: the others are counted by subtraction.
    """
    known = labels >= 0
    listed = above_among(pairs, known)
    sizes = np.bincount(labels[known])
    total, alike = known.sum() * (known.sum() - 1), np.sum(sizes * (sizes - 1))
    if total == 0:
        return 0.0
    above = len(listed.row)
    both = np.sum(labels[listed.row.numpy()] == labels[listed.node.numpy()])
    joint = np.array([[total - alike - above + both, alike - both], [above - both, both]]) / total
    independent = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0)
    return max(float(rel_entr(joint, independent).sum()), 0.0)


_METHODS = ("xtcl-gcn", "sugrl", "gcn", "meta-pn")


RELATION = "attribute-distribution"


NUMBERS = (0, 500, 1000, 1500, 2000, 2500)


QUICK_NUMBERS = (0, 2500)


RATIOS: dict[Rule, float] = {"copy": 0.5, "vote": 1.0}
"""The paper's rule and ours, each with its collective ratio, which the paper leaves open."""


GRAPHS = 3


_SPLITS = 5


class PerturbedLabels(Experiment):
    """Test accuracy, and training minus test accuracy, with Cora's labels changed by Algorithm 2.

    A point is a mean over three graphs, each with other changed labels, and five splits of each, as
    in the paper; quick: one graph and one split. On Cora the paper's rule has the opposite of the
    intended effect. So our rule stands beside it (`xtcl.lab.experiments.perturbation` says why).
    """

    name: ClassVar[str] = "perturbation"
    title: ClassVar[str] = "Labels bent towards the attribute distribution, Cora"

    def runs(self, selection: Selection) -> list[Run]:
        """Split by split, more and more labels bent."""
        select_names("data set", selection.datasets, ("cora",))
        return [
            self.run(rule, number, method, graph, seed)
            for seed in selection.seeds(_SPLITS, quick=1)
            for graph in range(1 if selection.quick else GRAPHS)
            for rule in RATIOS
            for number in (QUICK_NUMBERS if selection.quick else NUMBERS)
            for method in select_names("method", selection.methods, _METHODS)
        ]

    def run(self, rule: Rule, number: int, method: str, draw: int, seed: int) -> Run:
        """One system on one split of one graph."""

        def measure(context: Context) -> Plain:
            graph = context.graph("cora")
            pairs = above_pairs(graph, RELATION, device=context.device)
            bent = perturb_labels(graph, pairs, number, rule=rule, ratio=RATIOS[rule], seed=draw)
            split = make_split(bent, "nodes", seed)
            assert isinstance(split, NodeSplit)  # noqa: S101 - that is what the task has
            assert bent.labels is not None  # noqa: S101 - Cora has labels
            information = {"information": label_information(bent.labels, pairs)}
            return run_node_method(bent, split, method, seed, context) | information

        what = {"rule": rule, "number": number, "method": method, "graph": draw, "seed": seed}
        return Run(what, measure)


AXIS = "perturbed nodes"


PANELS: dict[str, Value] = {
    "test accuracy, %": lambda record: float(record.found["figure"]),
    "training minus test accuracy": lambda record: float(
        record.found["train"] - record.found["figure"]
    ),
}


RULES = {
    "copy": "labels handed on with chance 0.5 (the paper's rule)",
    "vote": "the commonest label above (our rule)",
}


def draw_perturbed_labels(
    experiment: PerturbedLabels, records: Sequence[Record], folder: Path
) -> str:
    """Write the picture; the page, as Markdown."""
    parts = [
        f"# {experiment.title}",
        "Mean ± standard error over graphs and splits; 10 % of the labels train. On Cora the "
        "labels agree with this relation from the start, and handing them on at random lowers the "
        "agreement that it is meant to raise; so a rule that raises it stands beside.",
    ]
    rules = [rule for rule in RULES if any(record.what["rule"] == rule for record in records)]
    with picture(folder, experiment.name, 11.0, 0.4 + 3.8 * len(rules)) as figure:
        for row, rule in zip(figure.subplots(len(rules), 2, squeeze=False), rules, strict=True):
            bent = [record for record in records if record.what["rule"] == rule]
            parts += [f"## {RULES[rule][0].upper()}{RULES[rule][1:]}", _information(bent)]
            for axes, (name, value) in zip(row, PANELS.items(), strict=True):
                curves = curves_of(bent, "number", value)
                parts += [f"{name[0].upper()}{name[1:]}:", curves_table(curves, AXIS)]
                draw_curves(axes, curves)
                axes.set(xlabel=AXIS, ylabel=name, title=RULES[rule])
                axes.title.set_fontsize(9)
                axes.legend(frameon=False, fontsize=8)
        figure.suptitle(experiment.title)
    parts += [conditions(records), f"![{experiment.title}]({experiment.name}.svg)"]
    return page(parts)


def _information(records: Sequence[Record]) -> str:
    """What the relation tells about the labels: the mean over graphs, each counted once."""
    information: dict[int, dict[int, float]] = {}
    for record in records:
        graphs = information.setdefault(record.what["number"], {})
        graphs[record.what["graph"]] = record.found["information"]
    rows = [
        [str(n), f"{1e4 * np.mean(list(information[n].values())):.2f}"] for n in sorted(information)
    ]
    return table([AXIS, "what the relation tells about the labels, 1e-4 nats"], rows)
