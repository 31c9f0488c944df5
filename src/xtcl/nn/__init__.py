"""Encoders: modules that turn `(x, edge_index)` into embeddings."""

from __future__ import annotations

import copy
from collections.abc import Callable

from torch import nn

from xtcl.errors import UsageError
from xtcl.nn.gat import GATEncoder
from xtcl.nn.gcn import GCNEncoder

ENCODERS: dict[str, type[nn.Module]] = {"gcn": GCNEncoder, "gat": GATEncoder}


def encoder_maker(
    encoder: str | nn.Module, in_features: int, options: dict[str, object]
) -> Callable[[], nn.Module]:
    """A function that makes a fresh encoder.

    A module of the user's own takes `(x, edge_index)`; every call gives a copy of it as it is, so
    that fitting never changes the original and starts from the same weights each time.
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
