"""Encoders, which turn `(x, edge_index)` into embeddings, and the contrastive loss."""

from __future__ import annotations

import copy
from collections.abc import Callable

from torch import nn

from xtcl.errors import UsageError
from xtcl.nn.gat import GATEncoder
from xtcl.nn.gcn import GCNEncoder
from xtcl.nn.loss import ContrastiveLoss, contrastive_loss

__all__ = [
    "CUSTOM_ENCODER",
    "ENCODERS",
    "ContrastiveLoss",
    "GATEncoder",
    "GCNEncoder",
    "contrastive_loss",
    "encoder_factory",
    "encoder_name",
]

ENCODERS: dict[str, type[nn.Module]] = {"gcn": GCNEncoder, "gat": GATEncoder}

CUSTOM_ENCODER = "custom"
"""The name of a module of the user's own, in recipes and in files."""


def encoder_name(encoder: str | nn.Module) -> str:
    """The name of an encoder; CUSTOM_ENCODER for a module."""
    return encoder if isinstance(encoder, str) else CUSTOM_ENCODER


def encoder_factory(
    encoder: str | nn.Module, in_features: int, options: dict[str, object]
) -> Callable[[], nn.Module]:
    """A function that makes a new encoder.

    `encoder` is a name or a module of the user's own that takes `(x, edge_index)`. Of a module each
    call returns a copy, so that fitting never changes the original and always starts from the same
    weights.
    """
    if isinstance(encoder, nn.Module):
        return lambda: copy.deepcopy(encoder)
    if encoder not in ENCODERS:
        raise UsageError(
            f"There is no encoder '{encoder}'. Known: {', '.join(ENCODERS)}; or give an nn.Module "
            "whose forward takes (x, edge_index)."
        )
    kind = ENCODERS[encoder]
    return lambda: kind(in_features, **options)
