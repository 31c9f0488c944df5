"""The graph attention encoder."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.nn import GATConv

from xtcl.errors import UsageError
from xtcl.nn.encoder import LayerwiseEncoder, SmoothedAttributes
from xtcl.nn.functional import dropout
from xtcl.nn.propagation import Block, EdgeIndex, edge_index_of


class GATEncoder(LayerwiseEncoder):
    r"""Graph attention layers over attributes smoothed by `hops` steps, in rows of unit length.

    .. math:: H_{l+1} = \big\Vert_{k} \sum_{v \in N_u \cup \{u\}} \alpha^k_{uv} W^k H_{l,v}

    with ELU between layers and the attention weights :math:`\alpha` of Veličković and others,
    "Graph Attention Networks", ICLR 2018.

    Cost of a pass: O(V D h + E h) time, O(E h) memory.
    """

    def __init__(
        self,
        in_features: int,
        width: int = 512,
        *,
        layers: int = 1,
        hops: int = 0,
        heads: int = 8,
        dropout: float = 0.5,
    ) -> None:
        super().__init__()
        if layers < 1 or heads < 1:
            raise UsageError(f"layers={layers} and heads={heads} must be at least 1.")
        if width % heads:
            raise UsageError(
                f"width={width} cannot be shared out among heads={heads}. Make it a multiple of "
                f"{heads}, or choose another number of heads."
            )
        self.smoothed_x = SmoothedAttributes(hops)
        self.convs = nn.ModuleList(
            GATConv(in_features if layer == 0 else width, width // heads, heads=heads)
            for layer in range(layers)
        )
        self.dropout = dropout

    @property
    def width(self) -> int:
        """Columns of the embedding."""
        return int(self.convs[-1].get_parameter("lin.weight").shape[0])

    @property
    def uses_neighbours(self) -> tuple[bool, ...]:
        """Every layer attends to neighbours."""
        return tuple(True for _ in self.convs)

    def layer(self, number: int, h: Tensor, links: EdgeIndex | Block) -> Tensor:
        """One attention layer; of a block, over the neighbours in it."""
        h = dropout(h if number == 0 else F.elu(h), self.dropout, self.training)
        output: Tensor
        if isinstance(links, Block):
            output = self.convs[number](links.ends(h), links.edge_index)
        else:
            output = self.convs[number](h, edge_index_of(links))
        return output
