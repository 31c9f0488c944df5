"""Whether an encoder can be used, before any work: its options, and what its forward returns.

A module of the user's own is tried on a ring of a few nodes, in training and in evaluation mode. A
copy is tried, and random states are restored: the check does not change the result of a fit. Cost:
O(1) in the size of the graph. A module that needs the graph itself, such as one with a row of
weights for each node, fails on the ring. Only then it is tried on the whole graph.
"""

from __future__ import annotations

import copy
import inspect

import torch
from torch import Tensor, nn

from xtcl.errors import UsageError, first_line, is_out_of_memory, known_names
from xtcl.graph.graph import Graph
from xtcl.nn import ENCODERS, encoder_factory
from xtcl.nn.encoder import RANDOM_FEATURES, encoder_inputs

RING = 8
"""Nodes of the graph that a module is tried on."""


def check_encoder_options(encoder: str | nn.Module, options: dict[str, object]) -> None:
    """Refuse options that no encoder can be made with, without the memory that making one takes.

    A module of the user's own is made already: it has no options.
    """
    make = encoder_factory(encoder, 1, options)
    if not isinstance(encoder, str):
        return
    known = [*inspect.signature(ENCODERS[encoder]).parameters][1:]
    for name in options:
        if name not in known:
            raise UsageError(
                f"Encoder '{encoder}' has no option '{name}'.{known_names(name, known)}"
            )
    dropout = options.get("dropout", 0.0)
    if not isinstance(dropout, (int, float)) or not 0 <= dropout < 1:
        raise UsageError(f"dropout={dropout} must be in [0, 1).")
    try:
        with torch.device("meta"):
            make()
    except UsageError:
        raise
    except (TypeError, ValueError, RuntimeError, AssertionError) as refused:
        given = ", ".join(f"{name}={value!r}" for name, value in options.items())
        raise UsageError(
            f"Encoder '{encoder}' cannot be made with {given}: {first_line(refused)}."
        ) from refused


def check_encoder(encoder: str | nn.Module, graph: Graph, device: torch.device) -> str | nn.Module:
    """Refuse a module that cannot embed the nodes of `graph`.

    Returns the encoder, or a copy whose lazy layers have their sizes, for a memory plan.
    """
    if not isinstance(encoder, nn.Module):
        return encoder
    columns = graph.num_attributes or RANDOM_FEATURES
    tried, wrong = _tried(encoder, *_ring(columns), device)
    if wrong is not None and graph.num_nodes != RING:
        tried, wrong = _tried(encoder, *encoder_inputs(graph, device), device)
    if wrong is not None:
        raise UsageError(
            f"The encoder {type(encoder).__name__} cannot be used: {wrong} An encoder takes "
            f"(x, edge_index), where x has {columns} columns in this graph, and returns a float "
            "tensor with one row for each node."
        )
    return tried


def _ring(columns: int) -> tuple[Tensor, Tensor]:
    """Attributes of unit length and links in both directions."""
    nodes = torch.arange(RING)
    links = torch.stack([nodes, nodes.roll(1)])
    x = torch.full((RING, columns), columns**-0.5)
    return x, torch.cat([links, links.flip(0)], dim=1)


def _tried(
    encoder: nn.Module, x: Tensor, edge_index: Tensor, device: torch.device
) -> tuple[nn.Module, str | None]:
    """A copy of `encoder` that has run, and what is wrong with its output; None if nothing is."""
    tried = encoder
    with torch.random.fork_rng([device] if device.type == "cuda" else []), torch.no_grad():
        try:
            tried = copy.deepcopy(encoder).to(device)
            x, edge_index = x.to(device), edge_index.to(device)
            for training in (True, False):
                tried.train(training)
                with torch.set_grad_enabled(training):
                    z = tried(x, edge_index)
                wrong = _wrong_output(z, len(x))
                if wrong is None and training:
                    wrong = _untrainable(tried, z)
                if wrong is not None:
                    return tried, wrong
        except Exception as error:  # the user's code may raise anything
            if is_out_of_memory(error):
                raise
            return tried, f"it raises {type(error).__name__}: {first_line(error)}."
    return tried, None


def _untrainable(encoder: nn.Module, z: Tensor) -> str | None:
    """Why no step of training would change the output `z`; None if one would."""
    if not any(parameter.requires_grad for parameter in encoder.parameters()):
        return "it has no parameters to train."
    if z.requires_grad:
        return None
    return (
        "what it returns has no gradient, so training cannot change it: leave out .detach(), "
        "torch.no_grad() and .numpy() in its forward, and use its trainable parameters there."
    )


def _wrong_output(z: object, num_nodes: int) -> str | None:
    if not isinstance(z, Tensor):
        return f"it returns a {type(z).__name__} and no tensor."
    if z.dim() != 2 or len(z) != num_nodes or not z.shape[1]:
        return f"for {num_nodes} nodes it returns the shape {tuple(z.shape)}."
    if not z.is_floating_point():
        return f"it returns numbers of type {z.dtype}."
    return None if z.isfinite().all() else "it returns numbers that are not finite."
