"""Whether two fits are the same fit, so that one may go on where the other stopped."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from typing import TYPE_CHECKING

import numpy as np

from xtcl.config import to_builtin
from xtcl.graph.graph import Graph
from xtcl.graph.splits import LinkSplit, NodeSplit
from xtcl.tasks.training_data import training_data

if TYPE_CHECKING:
    from xtcl.estimator import XTCL


def fit_identity(model: XTCL, graph: Graph, split: NodeSplit | LinkSplit) -> str:
    """A hash of everything that decides the result: graph, split, settings, seed, version."""
    import xtcl
    from xtcl.device import pick_device

    # A graph's fingerprint leaves its labels out; those that train count, the others must not.
    known = training_data(graph, split, use_labels=model.use_labels).graph.labels
    labels = b"" if known is None else np.ascontiguousarray(known).tobytes()
    described = {
        "version": xtcl.__version__,
        "graph": graph.fingerprint(),
        "labels": hashlib.sha256(labels).hexdigest(),
        "split": split.fingerprint(),
        "recipe": to_builtin(asdict(model.memory_plan(graph, split).recipe)),
        "task": str(model.task),
        "encoder": str(model.encoder),
        "relations": str(model.relations),
        "seed": int(model.random_state),
        "device": pick_device(model.device).type,  # random states of one do not fit another
    }
    return hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()
