"""ASP: views of the links near and far, and of the attributes, agree on every node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn

from xtcl.device import allow_tf32
from xtcl.errors import UsageError
from xtcl.graph.graph import Graph
from xtcl.graph.validation import Attributes
from xtcl.lab.methods.self_supervised import WithTaskSettings, infomax_inputs, train_until_flat
from xtcl.nn.functional import dropout, normalize, sparse_product
from xtcl.progress import Progress
from xtcl.relations.blocks import rows_per_block
from xtcl.relations.cosine import cosine_rows
from xtcl.relations.relation import Rows
from xtcl.relations.sparse import quiet_sparse
from xtcl.training.trainer import seeded

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


ASP_SETTINGS = {
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
    r"""Brings together the views of a node from near links, far links and attributes.

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
        found = ASP_SETTINGS.get(graph.name, ASPSettings(neighbours=few, words=False))
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
            ViewPair(0, 1),
            ViewPair(2, 3, settings.attribute_weight),
            ViewPair(0, 2, settings.bridge_weight),
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
                units = torch.stack([normalize(view) for view in views])
                return asp_contrast(units, pairs, settings.temperature)

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


class ViewPair(NamedTuple):
    """Two views by number, and how much their contrast counts."""

    first: int
    second: int
    weight: float = 1.0


def asp_contrast(
    views: Tensor, pairs: Sequence[ViewPair], temperature: float, *, height: int | None = None
) -> Tensor:
    r"""The weighted sum of :math:`l(a, b)` over `pairs` of views [m, V, h], their rows of length 1.

    .. math:: l(a, b) = \frac1V \sum_i -\log \frac{e^{a_i^\top b_i / \tau}}
              {\sum_j e^{a_i^\top b_j / \tau} + \sum_{j \neq i} e^{a_i^\top a_j / \tau}
              + \sum_{j \neq i} e^{b_i^\top b_j / \tau}}

    What node i adds to the value and to the gradient depends on row i of the similarities only. So
    the similarities are computed in blocks of `height` rows, and the gradient with the value: the
    backward pass neither keeps a block nor computes one again. The similarities of a view to itself
    are computed once for all pairs that contain it.

    Cost: O((m + n) V^2 h) for n pairs; memory O((m + 1) height V) beside the views. Cosines are at
    most 1, so that nothing overflows while the temperature is above 0.02.
    """
    height = height or rows_per_block(views.shape[1])
    value: Tensor = _Contrast.apply(  # type: ignore[no-untyped-call]
        views, tuple(pairs), temperature, height
    )
    return value


class _Contrast(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, views: Tensor, pairs: tuple[ViewPair, ...], temperature: float, height: int
    ) -> Tensor:
        with allow_tf32():  # cosines of three digits are enough for a softmax
            value, gradient = _in_blocks(views, pairs, temperature, height)
        ctx.save_for_backward(gradient)
        return value

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None, None, None]:
        (gradient,) = ctx.saved_tensors
        return upstream * gradient, None, None, None


def _in_blocks(
    views: Tensor, pairs: tuple[ViewPair, ...], temperature: float, height: int
) -> tuple[Tensor, Tensor]:
    """The value, and its gradient [m, V, h]."""
    num_nodes = views.shape[1]
    value, gradient = views.new_zeros(()), torch.zeros_like(views)

    def similarities(first: int, second: int, rows: slice) -> Tensor:
        return ((views[first, rows] / temperature) @ views[second].T).exp_()

    def add(first: int, second: int, rows: slice, similar: Tensor, share: Tensor) -> None:
        """The gradient of similarities [b, V] of the `rows` of one view to all of another."""
        gradient[first, rows] += share * (similar @ views[second])
        gradient[second] += similar.T @ (share * views[first, rows])

    for start in range(0, num_nodes, height):
        rows = slice(start, start + height)
        within = [similarities(view, view, rows) for view in range(len(views))]
        for similar in within:
            similar.diagonal(start).zero_()
        totals = [similar.sum(dim=1, keepdim=True) for similar in within]
        shares = [torch.zeros_like(total) for total in totals]
        for first, second, weight in pairs:
            across = similarities(first, second, rows)
            total = across.sum(dim=1, keepdim=True) + totals[first] + totals[second]
            own = (views[first, rows] * views[second, rows]).sum(dim=1, keepdim=True)
            scale = weight / num_nodes
            value += scale * (total.log() - own / temperature).sum()
            share = scale / temperature / total
            add(first, second, rows, across, share)
            gradient[first, rows] -= scale / temperature * views[second, rows]
            gradient[second, rows] -= scale / temperature * views[first, rows]
            for view in (first, second):
                shares[view] += share
        for view, similar in enumerate(within):
            add(view, view, rows, similar, shares[view])
    return value, gradient


TIE_BREAK = 1e-8
"""More than rounding in double precision, less than two Jaccard indices of bags of up to a few
thousand words can differ."""


def nearest_by_attributes(
    attributes: Attributes,
    count: int,
    device: torch.device,
    *,
    words: bool = False,
    height: int | None = None,
) -> Tensor:
    """Arcs [2, n] from each node to the `count` nodes most similar to it, sorted.

    The similarity is the cosine; with `words`, where all attributes are 0 or 1, Jaccard's index.
    Ties go to the lower node. A node is not its own neighbour, and nodes that are not similar at
    all are no neighbours: a node without attributes has none. Exact, in blocks of `height` rows.

    Cost O(V^2 D) time, O(V D + height V) memory.
    """
    if count < 1:
        raise UsageError(f"The number of neighbours, {count}, must be at least 1.")
    num_nodes, num_attributes = attributes.shape
    if num_attributes == 0 or num_nodes < 2:
        return torch.empty(2, 0, dtype=torch.long, device=device)
    dense = attributes.toarray() if sp.issparse(attributes) else np.asarray(attributes)
    x = torch.tensor(dense, dtype=torch.float32, device=device)
    rows = (jaccard_rows if words and is_binary(attributes) else cosine_rows)(x)
    nodes = torch.arange(num_nodes, device=device)
    lower_first = nodes.double() * (TIE_BREAK / num_nodes)
    arcs = []
    for part in torch.split(nodes, height or rows_per_block(num_nodes)):
        similar = rows(part)
        similar[torch.arange(len(part), device=device), part] = 0.0
        nearest = (similar.double() - lower_first).topk(min(count, num_nodes - 1), dim=1).indices
        nearest = nearest.sort(dim=1).values
        place, column = torch.nonzero(similar.gather(1, nearest) > 0, as_tuple=True)
        arcs.append(torch.stack([part[place], nearest[place, column]]))
    return torch.cat(arcs, dim=1)


def is_binary(attributes: Attributes) -> bool:
    """Whether every attribute is 0 or 1."""
    values = attributes.data if sp.issparse(attributes) else attributes
    return bool(np.isin(values, (0, 1)).all())


def jaccard_rows(words: Tensor) -> Rows:
    """Words that two nodes share, as a share of those that either has; `words` are 0 or 1.

    Numbers of words are whole, so the counts are exact on any device and in any block.
    """
    sizes = words.sum(dim=1)

    def compute(nodes: Tensor) -> Tensor:
        both = words[nodes] @ words.T
        either = sizes[nodes, None] + sizes - both
        return both / either.clamp_min(1.0)

    return compute


class ThinnedGraph:
    r"""The normalised adjacency of a graph without some of its links, which are drawn each time.

    :math:`D^{-1/2} (A + I) D^{-1/2}`, D the sums of the rows of A + I. The pattern of the matrix
    stays, lost links have the value 0: nothing needs to be sorted again. Cost O(E).
    """

    def __init__(self, edge_index: Tensor, num_nodes: int) -> None:
        """`edge_index` [2, n] holds each arc once and no loops."""
        nodes = torch.arange(num_nodes, device=edge_index.device)
        arcs = torch.cat([edge_index, nodes.expand(2, -1)], dim=1)
        self.row, self.column = arcs[:, (arcs[0] * num_nodes + arcs[1]).argsort()]
        self.starts = torch.cat([nodes.new_zeros(1), torch.bincount(self.row).cumsum(0)])
        self.loop = self.row == self.column
        ends = torch.stack([self.row, self.column]).sort(dim=0).values
        keys = ends[0] * num_nodes + ends[1]
        # Both directions of a link have one number, and so one fate.
        self.link = torch.searchsorted(keys.sort().values, keys)

    def without(self, share: float, generator: torch.Generator) -> Tensor:
        """The matrix (CSR) of the graph without about this share of its links."""
        chance = torch.rand(len(self.link), generator=generator, device=self.link.device)
        return self._matrix(((chance[self.link] >= share) | self.loop).float())

    def whole(self) -> Tensor:
        """The matrix (CSR) of the whole graph."""
        return self._matrix(torch.ones(len(self.link), device=self.link.device))

    def _matrix(self, kept: Tensor) -> Tensor:
        num_nodes = len(self.starts) - 1
        # Sums of whole numbers are exact in any order.
        root = kept.new_zeros(num_nodes).index_add_(0, self.row, kept).rsqrt()
        values = root[self.row] * kept * root[self.column]
        with quiet_sparse():
            return torch.sparse_csr_tensor(
                self.starts, self.column, values, size=(num_nodes, num_nodes)
            )
