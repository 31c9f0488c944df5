"""Encoders are checked before any work: what is wrong is a sentence, and nothing is left behind."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import torch
from small_runs import small_graph, small_model
from torch import Tensor, nn
from torch_geometric.nn import GAT, GCN, GIN, GATConv, GCNConv, GraphSAGE

from xtcl.errors import UsageError
from xtcl.estimator import XTCL
from xtcl.nn.encoder_check import RING, check_encoder, check_encoder_options
from xtcl.prepare import prepare

GRAPH = small_graph(40)
COLUMNS = GRAPH.num_attributes
CPU = torch.device("cpu")


class Linear(nn.Module):
    """A linear map of the attributes; subclasses do something else with it."""

    def __init__(self, columns: int = COLUMNS) -> None:
        super().__init__()
        self.linear = nn.Linear(columns, 4)

    def forward(self, x: Tensor, edge_index: Tensor) -> Any:
        return self.linear(x)


class Weighted(nn.Module):
    """Reads the weights of links where there are some."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = GCNConv(COLUMNS, 4)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Any:
        return self.conv(x, edge_index, edge_weight)


class Detached(Linear):
    def forward(self, x: Tensor, edge_index: Tensor) -> Any:
        return self.linear(x).detach()


class WithoutGradient(Linear):
    @torch.no_grad()
    def forward(self, x: Tensor, edge_index: Tensor) -> Any:
        return self.linear(x)


class Unused(Linear):
    """Its parameters are no part of what it returns."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Any:
        return x


class KeepsItsOutput(Linear):
    def forward(self, x: Tensor, edge_index: Tensor) -> Any:
        self.last = self.linear(x)
        return self.last


class PerNode(Linear):
    """Has a row of weights for each node of the graph, and counts its passes."""

    def __init__(self) -> None:
        super().__init__()
        self.own = nn.Parameter(torch.zeros(GRAPH.num_nodes, 4))
        self.passes = 0

    def forward(self, x: Tensor, edge_index: Tensor) -> Any:
        self.passes += 1
        return self.linear(x) + self.own


class NeedsWeights(Linear):
    """Cannot do without weights of links."""

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor) -> Any:  # type: ignore[override]
        return self.linear(x)


class Pair(Linear):
    """Returns a tuple."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Any:
        return self.linear(x), edge_index


class Mean(Linear):
    """Returns one row for the graph."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Any:
        return self.linear(x).mean(dim=0, keepdim=True)


class Codes(Linear):
    """Returns whole numbers."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Any:
        return self.linear(x).long()


class NotANumber(Linear):
    """Returns no finite numbers."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Any:
        return self.linear(x) * float("nan")


class Auxiliary(Linear):
    """Returns more than the embedding, but only in training."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Any:
        return (self.linear(x), 0.0) if self.training else self.linear(x)


USABLE: dict[str, Any] = {
    **{
        f"{kind.__name__} {width}": (lambda kind=kind, width=width: kind(width, 8, 2, norm="batch"))
        for kind in (GCN, GraphSAGE, GAT, GIN)
        for width in (COLUMNS, -1)  # -1: PyG finds out
    },
    "edge weights": Weighted,
    "rows of nodes": PerNode,
    "one layer": lambda: GATConv(COLUMNS, 4, dropout=0.5),
}


def states() -> tuple[bytes, str, object]:
    drawn = torch.get_rng_state().numpy().tobytes()
    return drawn, repr(np.random.get_state()), random.getstate()  # noqa: NPY002


@pytest.mark.parametrize("name", USABLE)
def test_pyg_s_modules_are_fitted_and_the_check_leaves_no_trace(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    encoder = USABLE[name]()
    described, before = str(encoder.state_dict()), states()
    model = small_model(encoder=encoder, epochs=2)
    prepare(model, GRAPH)
    assert states() == before
    assert str(encoder.state_dict()) == described
    assert encoder.training
    fitted = model.fit(GRAPH)
    monkeypatch.setattr("xtcl.prepare.check_encoder", lambda encoder, *_: encoder)
    if not name.endswith("-1"):  # a plan needs the sizes of lazy layers
        unchecked = small_model(encoder=encoder, epochs=2).fit(GRAPH)
        np.testing.assert_array_equal(unchecked.embedding_, fitted.embedding_)
    assert fitted.embedding_.shape[0] == GRAPH.num_nodes


def test_a_module_that_runs_on_a_ring_is_not_tried_on_the_graph(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried = []

    class Counting(Linear):
        def forward(self, x: Tensor, edge_index: Tensor) -> Any:
            tried.append(len(x))
            return self.linear(x)

    check_encoder(Counting(), GRAPH, CPU)
    assert tried == [RING, RING]  # in training and in evaluation mode
    own = PerNode()
    checked = check_encoder(own, GRAPH, CPU)
    assert isinstance(checked, PerNode)
    assert (checked.passes, own.passes) == (2, 0)


@pytest.mark.parametrize(
    ("encoder", "wrong"),
    [
        (lambda: GCN(COLUMNS + 1, 8, 2), "it raises RuntimeError: mat1 and mat2 shapes"),
        (NeedsWeights, "it raises TypeError: .*missing 1 required positional argument"),
        (Pair, r"it returns a tuple and no tensor\."),
        (Auxiliary, r"it returns a tuple and no tensor\."),
        (Mean, rf"for {GRAPH.num_nodes} nodes it returns the shape \(1, 4\)\."),
        (Codes, r"it returns numbers of type torch\.int64\."),
        (NotANumber, r"it returns numbers that are not finite\."),
        (nn.Identity, "it raises TypeError"),
        (lambda: GIN(COLUMNS, 8, 2).requires_grad_(False), r"it has no parameters to train\."),
        (
            Detached,
            r"what it returns has no gradient, .* leave out \.detach\(\), torch\.no_grad\(\)",
        ),
        (WithoutGradient, "what it returns has no gradient"),
        (Unused, "what it returns .* use its trainable parameters there"),
    ],
)
def test_what_is_wrong_is_said_before_the_fit(encoder: Any, wrong: str) -> None:
    model = small_model(encoder=encoder())
    sentence = rf"{type(model.encoder).__name__} cannot be used: {wrong}.* x has {COLUMNS} columns"
    for refuse in (model.fit, model.memory_plan):
        with pytest.raises(UsageError, match=sentence):
            refuse(GRAPH)


def test_a_module_may_keep_what_it_returned() -> None:
    model = small_model(encoder=KeepsItsOutput(), epochs=1)
    model.memory_plan(GRAPH)
    assert model.fit(GRAPH).embedding_.shape[0] == GRAPH.num_nodes


def test_without_attributes_x_is_random() -> None:
    bare = type(GRAPH).from_arrays(None, GRAPH.edges, GRAPH.labels)
    check_encoder(Linear(256), bare, CPU)
    with pytest.raises(UsageError, match="x has 256 columns in this graph"):
        check_encoder(Linear(), bare, CPU)


@pytest.mark.parametrize(
    ("encoder", "options", "sentence"),
    [
        ("gcn", {"foo": 1}, r"^Encoder 'gcn' has no option 'foo'\. Known: width, layers, hops, "),
        ("gat", {"widht": 8}, r"no option 'widht'\. Did you mean 'width'\? Known: width, .*heads"),
        ("gcn", {"layers": "two"}, r"^Encoder 'gcn' cannot be made with layers='two': .*\.$"),
        ("gcn", {"dropout": 1.0}, r"^dropout=1\.0 must be in \[0, 1\)\.$"),
        ("gat", {"layers": 0}, r"^layers=0 and heads=8 must be at least 1\.$"),
        ("sage", {}, r"^There is no encoder 'sage'\. Known: gcn, gat"),
    ],
)
def test_options_that_no_encoder_takes(encoder: str, options: Any, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        check_encoder_options(encoder, options)
    with pytest.raises(UsageError, match=sentence):
        XTCL(encoder=encoder, encoder_options=options).fit(GRAPH)


def test_options_take_no_memory_and_no_random_numbers() -> None:
    before = states()
    check_encoder_options("gcn", {"width": 10**9, "layers": 3})
    assert states() == before
    check_encoder_options(Linear(), {"foo": 1})  # a module is made already
