"""xtcl: task-aware contrastive node embeddings that say which graph signals mattered.

>>> from xtcl import XTCL, load_dataset, node_split
>>> graph = load_dataset("cora")
>>> split = node_split(graph, train=0.1, seed=0)
>>> model = XTCL(task="nodes", encoder="gcn", random_state=0).fit(graph, split)  # doctest: +SKIP
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from xtcl.config import BatchSettings, Member, Plan, Recipe, SamplerSettings, TrainingSettings
    from xtcl.estimator import XTCL
    from xtcl.graph.datasets.load import load_dataset
    from xtcl.graph.datasets.synthetic import block_model, random_graph
    from xtcl.graph.graph import Graph
    from xtcl.graph.splits import LinkSplit, NodeSplit, check_no_leak, link_split, node_split
    from xtcl.graph.tables.read import read_tables
    from xtcl.integrations import AddXTCLEmbedding, NodeEmbedder
    from xtcl.relations.registry import register_relation
    from xtcl.relations.relation import Relation
    from xtcl.sampling.xgsampler import XGSampler
    from xtcl.tasks.custom import OwnTask

__version__ = "0.1.0"

_HOMES = {
    "AddXTCLEmbedding": "xtcl.integrations",
    "XTCL": "xtcl.estimator",
    "BatchSettings": "xtcl.config",
    "Graph": "xtcl.graph.graph",
    "LinkSplit": "xtcl.graph.splits",
    "Member": "xtcl.config",
    "NodeEmbedder": "xtcl.integrations",
    "NodeSplit": "xtcl.graph.splits",
    "OwnTask": "xtcl.tasks.custom",
    "Plan": "xtcl.config",
    "Recipe": "xtcl.config",
    "Relation": "xtcl.relations.relation",
    "SamplerSettings": "xtcl.config",
    "TrainingSettings": "xtcl.training.trainer",
    "XGSampler": "xtcl.sampling.xgsampler",
    "block_model": "xtcl.graph.datasets",
    "check_no_leak": "xtcl.graph.splits",
    "link_split": "xtcl.graph.splits",
    "load_dataset": "xtcl.graph.datasets",
    "node_split": "xtcl.graph.splits",
    "random_graph": "xtcl.graph.datasets",
    "read_tables": "xtcl.graph.tables.read",
    "register_relation": "xtcl.relations.registry",
}

__all__ = [
    "XTCL",
    "AddXTCLEmbedding",
    "BatchSettings",
    "Graph",
    "LinkSplit",
    "Member",
    "NodeEmbedder",
    "NodeSplit",
    "OwnTask",
    "Plan",
    "Recipe",
    "Relation",
    "SamplerSettings",
    "TrainingSettings",
    "XGSampler",
    "__version__",
    "block_model",
    "check_no_leak",
    "link_split",
    "load_dataset",
    "node_split",
    "random_graph",
    "read_tables",
    "register_relation",
]


def __getattr__(name: str) -> Any:
    """Import what is asked for, so that `import xtcl` alone is quick."""
    if name not in _HOMES:
        raise AttributeError(f"module 'xtcl' has no attribute '{name}'")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    """The public names, imported already or not."""
    return sorted(__all__)
