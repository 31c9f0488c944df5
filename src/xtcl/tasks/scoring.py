"""The final score: the only place that looks at the test side of a split."""

from __future__ import annotations

from collections.abc import Mapping

from xtcl.errors import DataError, UsageError
from xtcl.graph.graph import Graph
from xtcl.graph.link_split import LinkSplit
from xtcl.graph.node_split import NodeSplit
from xtcl.tasks.answers import Answer, LinkAnswer, NodeAnswer
from xtcl.tasks.metrics import link_metrics, node_metrics
from xtcl.tasks.training_side import Split, TrainingSide


def score_on_test(answer: Answer, graph: Graph, split: Split) -> Mapping[str, float]:
    """How right `answer` is on the test nodes or links, as fractions."""
    if isinstance(answer, NodeAnswer) and isinstance(split, NodeSplit):
        labels = TrainingSide(graph).labels
        nodes = min(len(labels), len(answer.probabilities))
        if len(split.test) and not 0 <= split.test[0] <= split.test[-1] < nodes:
            raise DataError(
                f"The split tests nodes {split.test[0]} to {split.test[-1]}, but graph "
                f"'{graph.name}' has nodes 0 to {nodes - 1}: use the graph it was made from."
            )
        return node_metrics(
            labels[split.test], answer.predictions[split.test], answer.probabilities[split.test]
        )
    if isinstance(answer, LinkAnswer) and isinstance(split, LinkSplit):
        return link_metrics(answer.score(split.test), answer.score(split.test_negatives))
    raise UsageError(f"A split of {split.kind} cannot score this answer; use one of its own kind.")
