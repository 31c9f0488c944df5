"""Boosted trees on the attributes, with and without those of the neighbours: no network, no head.

Both are controls of ours; the paper has no such row.
"""

from __future__ import annotations

from typing import ClassVar

import torch

from xtcl.baselines.method import Method
from xtcl.progress import Progress
from xtcl.tasks import NodePredictions, Predictions, TrainingData
from xtcl.tasks.trees import fit_trees, tree_columns


class Trees(Method):
    r"""Boosted trees on the attributes: the baseline that is not linear and reads no links.

    .. math:: F_c(u) = b_c + \sum_{i=1}^{150} T_{i,c}(x_u), \qquad
              p(c \mid u) = \mathrm{softmax}(t\, F(u))_c

    b is the log share of each class. Friedman, "Greedy Function Approximation: A Gradient Boosting
    Machine", Annals of Statistics 29, 2001; the trees are LightGBM's: Ke and others, "LightGBM: A
    Highly Efficient Gradient Boosting Decision Tree", NIPS 2017. 150 rounds at the rate 0.05; each
    tree has 15 leaves at the most and reads 80 % of the rows and 30 % of the columns. No setting is
    chosen for a graph but the inverse temperature t, by three folds of the training labels; it
    changes no class. Attributes are read as they are: the scale of a column does not matter.

    Cost: four fits of O(R C n D), with R rounds, n labelled nodes and C classes (zeros cost
    nothing); the answer O(R C V) times the depth of the trees. Memory that of the attributes.
    """

    name: ClassVar[str] = "trees"
    title: ClassVar[str] = "Attributes + trees"
    tasks: ClassVar[frozenset[str]] = frozenset({"nodes"})
    neighbours: ClassVar[bool] = False
    """Whether the trees read what stands around a node, too."""

    def fit(
        self,
        side: TrainingData,
        task: str,
        *,
        seed: int,
        device: torch.device,
        progress: Progress,
    ) -> Predictions:
        """Fit the trees, on the CPU: `device` is not used."""
        self.check_task(task)
        graph, known, codes = side.graph, side.labelled, side.known_labels
        with progress.stage(f"fitting {self.title}", 1) as advance:
            columns = tree_columns(
                graph.attributes,
                graph.adjacency,
                side.labels,
                graph.num_classes,
                neighbours=self.neighbours,
            )
            trees = fit_trees(columns[known], codes, seed=seed).calibrated()
            answer = NodePredictions(trees.predict_proba(columns, graph.num_classes))
            advance(1)
        return answer


class TreesNeighbours(Trees):
    r"""Boosted trees on the attributes and on what stands around a node.

    .. math:: \big[\, x_u, \; (M X)_u, \; (M^2 X)_u, \; d_u, \; (M d)_u, \; q(u), \; q'(u) \,\big],
              \qquad M = D^{-1} A, \qquad q_c(u) = \frac{n_c(u) + \pi_c}{\sum_k n_k(u) + 1}

    The columns, under the trees of `Trees`: attributes, their mean over the neighbours and the mean
    of these means; the degree and the mean degree of the neighbours; shares and number of the
    training labels among the neighbours (q), and the same at the ends of paths of two links that do
    not lead back (q'). :math:`\pi` are the class shares. A node's own label is in none of its
    columns, so that they mean the same at a training node as at any other.

    Means over neighbours as columns for boosted trees: Bazhenov, Platonov and Prokhorenkova,
    "GraphLand: Evaluating Graph Machine Learning Models on Diverse Industrial Data", 2024. Labels
    around a node as columns: Neville and Jensen, "Iterative Classification in Relational Data",
    2000, here without their iterations. Settings are those of `Trees`.

    Cost: O(E D) for the means, then that of `Trees` on three times as many columns. The means of
    means have fewer zeros than the attributes; memory is what they need, O(V D) at the most.
    """

    name: ClassVar[str] = "trees-neighbours"
    title: ClassVar[str] = "Neighbours' means + trees"
    neighbours: ClassVar[bool] = True
