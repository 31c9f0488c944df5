"""The contrastive losses that the paper compares besides SSCL: XTCL with other positives."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from xtcl.baselines.contrastive import SSCL, Contrastive
from xtcl.baselines.method import Method
from xtcl.config import FitConfig
from xtcl.graph.graph import Graph
from xtcl.sampling.strategies import AllLabelPositives, PositiveStrategy

__all__ = ["SCL", "SSCL", "CeilingSCL", "Contrastive", "NaiveTCL", "SSCLAll", "with_truth"]


class SSCLAll(Contrastive):
    """SSCL over all nine relations, as many as XTCL has: without learned weights and trust."""

    name: ClassVar[str] = "sscl-all"
    title: ClassVar[str] = "SSCL (nine relations)"
    positives: ClassVar[str] = "uniform-all"


class SCL(Contrastive):
    """XTCL with labels alone: positives with the same label (Definition 2).

    Negatives are random nodes of the graph, labelled or not.
    """

    name: ClassVar[str] = "scl"
    title: ClassVar[str] = "SCL"
    positives: ClassVar[str] = "same-label"


class NaiveTCL(Contrastive):
    """SCL for labelled nodes, SSCL for all the others (Definition 7)."""

    name: ClassVar[str] = "naive-tcl"
    title: ClassVar[str] = "Naive TCL"
    positives: ClassVar[str] = "naive"


class CeilingSCL(Contrastive):
    """XTCL with the true classes of all nodes (Definition 6).

    It sees the test labels, and is no competitor. The encoder trains on the true labels of all
    nodes; the head is fitted on training labels as ever. Whoever wants the ceiling has to give the
    labels as `truth`, and a method made by name alone refuses to fit.
    """

    name: ClassVar[str] = "ceiling-scl"
    title: ClassVar[str] = "Ceiling SCL (sees the test labels)"
    positives: ClassVar[str] = "all-labels"

    def __init__(self, truth: np.ndarray | None = None, recipe: FitConfig | None = None) -> None:
        """`truth` holds the label code of every node, -1 where it is unknown."""
        super().__init__(recipe)
        self.truth = truth

    def strategy(self) -> PositiveStrategy:
        """Any nodes of the same class."""
        return AllLabelPositives(self.truth)


def with_truth(method: Method, graph: Graph) -> Method:
    """The method itself; the ceiling with the true labels of `graph`."""
    if not isinstance(method, CeilingSCL):
        return method
    return CeilingSCL(graph.labels, method.recipe)
