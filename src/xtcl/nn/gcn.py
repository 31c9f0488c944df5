"""The graph convolutional encoder."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor, nn

from xtcl.errors import UsageError
from xtcl.nn.encoder import LayerwiseEncoder, SmoothedAttributes
from xtcl.nn.functional import dropout, sparse_dropout_linear
from xtcl.nn.propagation import Block, EdgeIndex, Propagation


class GCNEncoder(LayerwiseEncoder):
    r"""Graph convolutions: a linear layer over smoothed attributes, and more layers if wanted.

    .. math:: Z = \text{norm}(S X) W \qquad \text{one layer}

    .. math:: H_{l+1} = \hat A \, \text{PReLU}(H_l) \, W_l + b_l \qquad \text{further layers}

    S takes `hops` steps of smoothing, back to X with the chance `restart` in each (`Propagation`).
    `layers=2, hops=1` is the two-layer network of Kipf and Welling, with `batch_norm` if wanted. On
    small citation graphs the linear form generalises better from few labels (Wu and others,
    "Simplifying Graph Convolutional Networks", ICML 2019), and the smoothed attributes need to be
    computed only once.

    Cost of a pass: O(V D h) with the smoothed attributes kept, O(k E D) to compute them; every
    further layer O(V h^2 + E h).
    """

    same_kernels: ClassVar[bool] = True

    def __init__(
        self,
        in_features: int,
        width: int = 512,
        *,
        layers: int = 1,
        hops: int = 2,
        restart: float = 0.0,
        batch_norm: bool = False,
        dropout: float = 0.5,
    ) -> None:
        super().__init__()
        if layers < 1:
            raise UsageError(f"layers={layers} must be at least 1.")
        self.smoothed_x = SmoothedAttributes(hops, restart)
        self.propagation = Propagation(1, like=self.smoothed_x.propagation)
        self.linears = nn.ModuleList(
            nn.Linear(in_features if layer == 0 else width, width, bias=layer > 0)
            for layer in range(layers)
        )
        self.between = nn.ModuleList(
            nn.Sequential(nn.BatchNorm1d(width) if batch_norm else nn.Identity(), nn.PReLU())
            for _ in range(layers - 1)
        )
        self.dropout = dropout

    @property
    def width(self) -> int:
        """Columns of the embedding."""
        return int(self.linears[-1].get_parameter("weight").shape[0])

    @property
    def uses_neighbours(self) -> tuple[bool, ...]:
        """All but the first, whose input is smoothed already."""
        return (False, *(True for _ in self.between))

    def layer(self, number: int, h: Tensor, links: EdgeIndex | Block) -> Tensor:
        """A linear layer of each node's own row; further layers first propagate over the links."""
        linear = self.linears[number]
        if number == 0:
            weight = linear.get_parameter("weight")
            return sparse_dropout_linear(h, weight, self.dropout, self.training)
        h = dropout(self.between[number - 1](h), self.dropout, self.training)
        h = links.smooth(h) if isinstance(links, Block) else self.propagation(h, links)
        output: Tensor = linear(h)
        return output
