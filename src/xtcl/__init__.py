"""xtcl: task-aware contrastive node embeddings that say which graph signals mattered.

>>> from xtcl import XTCL, load_dataset, node_split
>>> graph = load_dataset("cora")
>>> split = node_split(graph, train=0.1, seed=0)
>>> model = XTCL(task="nodes", encoder="gcn", random_state=0).fit(graph, split)  # doctest: +SKIP
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from xtcl import renamed

if TYPE_CHECKING:
    from xtcl.config import (
        BatchConfig,
        EncoderConfig,
        EnsembleConfig,
        FitConfig,
        SamplerConfig,
        TrainingConfig,
    )
    from xtcl.errors import XTCLError
    from xtcl.estimator import XTCL
    from xtcl.graph.convert import as_graph
    from xtcl.graph.datasets.load import load_dataset
    from xtcl.graph.datasets.synthetic import block_model, random_graph
    from xtcl.graph.graph import Graph
    from xtcl.graph.splits import LinkSplit, NodeSplit, check_no_leak, link_split, node_split
    from xtcl.graph.tables.read import read_tables
    from xtcl.integrations import AddXTCLEmbedding, NodeEmbedder
    from xtcl.nn.loss import ContrastiveLoss, contrastive_loss
    from xtcl.progress import Progress
    from xtcl.relations.registry import register_relation
    from xtcl.relations.relation import Relation
    from xtcl.relations.store.relation_store import RelationStore
    from xtcl.sampling.xgsampler import XGSampler
    from xtcl.tasks.custom import CustomTask

__version__ = "0.1.0"

_HOMES = {
    "AddXTCLEmbedding": "xtcl.integrations",
    "BatchConfig": "xtcl.config",
    "ContrastiveLoss": "xtcl.nn.loss",
    "CustomTask": "xtcl.tasks.custom",
    "EncoderConfig": "xtcl.config",
    "EnsembleConfig": "xtcl.config",
    "FitConfig": "xtcl.config",
    "Graph": "xtcl.graph.graph",
    "LinkSplit": "xtcl.graph.splits",
    "NodeEmbedder": "xtcl.integrations",
    "NodeSplit": "xtcl.graph.splits",
    "Progress": "xtcl.progress",
    "Relation": "xtcl.relations.relation",
    "RelationStore": "xtcl.relations.store.relation_store",
    "SamplerConfig": "xtcl.config",
    "TrainingConfig": "xtcl.config",
    "XGSampler": "xtcl.sampling.xgsampler",
    "XTCL": "xtcl.estimator",
    "XTCLError": "xtcl.errors",
    "as_graph": "xtcl.graph.convert",
    "block_model": "xtcl.graph.datasets.synthetic",
    "check_no_leak": "xtcl.graph.splits",
    "contrastive_loss": "xtcl.nn.loss",
    "link_split": "xtcl.graph.splits",
    "load_dataset": "xtcl.graph.datasets.load",
    "node_split": "xtcl.graph.splits",
    "random_graph": "xtcl.graph.datasets.synthetic",
    "read_tables": "xtcl.graph.tables.read",
    "register_relation": "xtcl.relations.registry",
}

__all__ = [
    "XTCL",
    "AddXTCLEmbedding",
    "BatchConfig",
    "ContrastiveLoss",
    "CustomTask",
    "EncoderConfig",
    "EnsembleConfig",
    "FitConfig",
    "Graph",
    "LinkSplit",
    "NodeEmbedder",
    "NodeSplit",
    "Progress",
    "Relation",
    "RelationStore",
    "SamplerConfig",
    "TrainingConfig",
    "XGSampler",
    "XTCLError",
    "__version__",
    "as_graph",
    "block_model",
    "check_no_leak",
    "contrastive_loss",
    "link_split",
    "load_dataset",
    "node_split",
    "random_graph",
    "read_tables",
    "register_relation",
]


def __getattr__(name: str) -> Any:
    """Import a name on first use, so that `import xtcl` is quick."""
    if name in renamed.NAMES:
        return renamed.lookup(f"xtcl.{name}", f"xtcl.{renamed.NAMES[name]}")
    if name not in _HOMES:
        raise AttributeError(f"module 'xtcl' has no attribute '{name}'")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    """The public names, imported already or not."""
    return sorted(__all__)
