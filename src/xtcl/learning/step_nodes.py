"""The nodes that the loss of a step reads."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class StepNodes(NamedTuple):
    """Anchors [n], their positives [n, B] with -1 in empty places, and shared negatives [K]."""

    anchors: Tensor
    positives: Tensor
    negatives: Tensor

    def apart(self) -> tuple[Tensor, StepNodes]:
        """The different nodes among them, and the same step with their places for the nodes.

        Different nodes have different places, so the loss is the one of the whole graph.
        Cost O(n B + K), and the sorting of as many numbers.
        """
        filled = self.positives >= 0
        sizes = [len(self.anchors), int(filled.sum()), len(self.negatives)]
        named = torch.cat([self.anchors, self.positives[filled], self.negatives])
        nodes, place = torch.unique(named, return_inverse=True)
        anchors, pulled, negatives = place.split(sizes)
        positives = self.positives.masked_scatter(filled, pulled)
        return nodes, StepNodes(anchors, positives, negatives)
