"""ASP: views of the links near and far, and of the attributes, agree on every node."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from xtcl.baselines.asp_contrast import Pair, contrast
from xtcl.baselines.attribute_graph import nearest_by_attributes
from xtcl.baselines.infomax import infomax_inputs, train_until_flat
from xtcl.baselines.task_settings import WithTaskSettings
from xtcl.baselines.thinned_graph import ThinnedGraph
from xtcl.graph.graph import Graph
from xtcl.learning.encoders.dropout import dropout
from xtcl.learning.sparse_product import sparse_product
from xtcl.learning.trainer import seeded
from xtcl.learning.unit_rows import unit_rows
from xtcl.progress import Progress

NEAR_HOPS = 2


@dataclass(frozen=True)
class ASPSettings:
    """How ASP is trained; the defaults are Cora's, the only ones published in full.

    `neighbours` is the number of arcs a node has in the attribute graph, by Jaccard's index with
    `words` and by the cosine without; `far_hops` is the K of the far view; `attribute_weight` and
    `bridge_weight` are the lambdas of the loss.
    """

    width: int = 256
    neighbours: int = 70
    words: bool = True
    far_hops: int = 10
    temperature: float = 1.2
    attribute_weight: float = 1.0
    bridge_weight: float = 0.6
    dropout: float = 0.6
    dropped_links: float = 0.1
    dropped_arcs: float = 0.2
    learning_rate: float = 1e-3
    weight_decay: float = 1e-4
    epochs: int = 500
    patience: int = 20


SETTINGS = {
    "cora": ASPSettings(),
    "citeseer": ASPSettings(
        neighbours=1,
        temperature=1.5,
        attribute_weight=0.01,
        learning_rate=1e-4,
        weight_decay=1e-5,
    ),
    "pubmed": ASPSettings(far_hops=30, words=False),
    "photo": ASPSettings(words=False),
    "computers": ASPSettings(words=False),
}

LINK_NEIGHBOURS = {"cora": 100}
LINK_TEMPERATURE = 0.2


class LinearViews(nn.Module):
    """Three linear layers, and the four views of the nodes that smoothing makes of them."""

    def __init__(self, in_features: int, settings: ASPSettings) -> None:
        super().__init__()
        self.near, self.far, self.shared = (
            nn.ParameterDict(
                {
                    "weight": nn.init.xavier_uniform_(torch.empty(in_features, settings.width)),
                    "bias": torch.zeros(settings.width),
                }
            )
            for _ in range(3)
        )
        self.far_hops, self.dropout = settings.far_hops, settings.dropout

    def forward(self, x: Tensor, links: Tensor, arcs: Tensor) -> tuple[Tensor, ...]:
        """h0, h1, z0 and z1, each [V, width]; every layer draws its own dropout."""

        def layer(part: nn.ParameterDict) -> Tensor:
            kept = dropout(x, self.dropout, self.training)
            rows: Tensor = kept @ part["weight"] + part["bias"]
            return rows

        return (
            _smoothed(layer(self.near), links, NEAR_HOPS),
            _smoothed(layer(self.far), links, self.far_hops),
            _smoothed(layer(self.shared), links, NEAR_HOPS),
            _smoothed(layer(self.shared), links, NEAR_HOPS) + arcs @ layer(self.shared),
        )


def _smoothed(rows: Tensor, matrix: Tensor, hops: int) -> Tensor:
    for _ in range(hops):
        rows = sparse_product(matrix, matrix, rows)  # links go both ways
    return rows


class ASP(WithTaskSettings[ASPSettings]):
    r"""Brings together what near links, far links and attributes say of a node.

    .. math:: G_W(\hat A, K) = \hat A^K (X W + b), \quad
              H_0 = G_1(\hat A, 2), \quad H_1 = G_2(\hat A, K), \quad
              Z_0 = G_3(\hat A, 2), \quad Z_1 = G_3(\hat A, 2) + G_3(\hat B, 1)

    .. math:: L = l(H_0, H_1) + \lambda_1 l(Z_0, Z_1) + \lambda_2 l(H_0, Z_0)

    with B the graph of nearest neighbours by attributes, l of `contrast` on cosines, and each epoch
    other links left out of A and B and other attributes out of each G. The embedding is
    :math:`H_0 + H_1 + Z_1`. Chen and Kou, "Attribute and Structure Preserving Graph Contrastive
    Learning", AAAI 2023.

    The embedding is taken without dropout. Training stops, as published, when its own loss has had
    no new low for 20 epochs, or after 500.

    Cora's settings are published in full, for links too; of CiteSeer's the second lambda and the
    width are missing and are Cora's; of PubMed's only K is known. The rest is chosen, without
    labels:

    - K = 10 for Photo and Computers. The mean of 1 - cosine over pairs of nodes, of attributes
      after K hops, is on Cora with its 10 hops 63 % of that after two, and on PubMed with its 30
      24 %; 10 hops leave 48 % on Photo and 38 % on Computers, in between.
    - For links, Cora's temperature of 0.2: a sharp contrast tells a node from those nearly like it,
      where classes need no more than a mild one.
    - All else is Cora's, but for the measure of the attribute graph: Jaccard's index is published
      for Cora and CiteSeer, and the cosine is the usual one.

    Figures on trial splits, which no reported one uses (seeds 1000 and 1001), with fewer epochs
    than the settings have. Nodes: 84.55 on Cora after 64 epochs and rising; 73.25 on CiteSeer
    (1000) after 100. With a fifth of the nodes, drawn each epoch, as the i of the loss: 71.43 on
    CiteSeer after 50 epochs and rising; 73.15 after 40 with ten times the learning rate. Links, AUC
    on Cora (1000), likewise with a fifth and 50 epochs: 93.94 with the settings for links, 92.65
    with those for nodes.

    Cost of an epoch: O(V^2 h) time; memory O(V (D + h) + E) and some blocks of rows of V numbers.
    """

    name: ClassVar[str] = "asp"
    title: ClassVar[str] = "ASP"

    def settings_for(self, graph: Graph, task: str) -> ASPSettings:
        """Those of the data set, or Cora's with fewer neighbours in a small graph."""
        few = min(ASPSettings.neighbours, max(1, graph.num_nodes // 20))
        found = SETTINGS.get(graph.name, ASPSettings(neighbours=few, words=False))
        if task == "links":
            neighbours = LINK_NEIGHBOURS.get(graph.name, found.neighbours)
            found = replace(found, neighbours=neighbours, temperature=LINK_TEMPERATURE)
        return found

    def embed(
        self, graph: Graph, *, seed: int, device: torch.device, progress: Progress
    ) -> np.ndarray:
        """Train on the graph; rows [V, width]."""
        settings = self.settings or self.settings_for(graph, "nodes")
        x, edge_index = infomax_inputs(graph, device)
        links = ThinnedGraph(edge_index, graph.num_nodes)
        arcs = ThinnedGraph(
            nearest_by_attributes(
                graph.attributes, settings.neighbours, device, words=settings.words
            ),
            graph.num_nodes,
        )
        pairs = (
            Pair(0, 1),
            Pair(2, 3, settings.attribute_weight),
            Pair(0, 2, settings.bridge_weight),
        )
        with (
            seeded(seed, device) as generator,
            progress.stage(f"training {self.title}", settings.epochs) as advance,
        ):
            network = LinearViews(x.shape[1], settings).to(device)

            def loss() -> Tensor:
                views = network(
                    x,
                    links.without(settings.dropped_links, generator),
                    arcs.without(settings.dropped_arcs, generator),
                )
                units = torch.stack([unit_rows(view) for view in views])
                return contrast(units, pairs, settings.temperature)

            train_until_flat(
                network,
                torch.optim.Adam(
                    network.parameters(),
                    lr=settings.learning_rate,
                    weight_decay=settings.weight_decay,
                ),
                loss,
                epochs=settings.epochs,
                patience=settings.patience,
                on_epoch=advance,
            )
            network.eval()
            with torch.no_grad():
                near, far, _, both = network(x, links.whole(), arcs.whole())
        return np.asarray((near + far + both).cpu().numpy())
