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
    from xtcl.estimator import XTCL
    from xtcl.graph.datasets import block_model, load_dataset, random_graph
    from xtcl.graph.graph import Graph
    from xtcl.graph.leaks import check_no_leak
    from xtcl.graph.link_split import LinkSplit, link_split
    from xtcl.graph.node_split import NodeSplit, node_split
    from xtcl.graph.tables.read import read_tables
    from xtcl.integrations.add_embedding import AddXTCLEmbedding
    from xtcl.integrations.node_embedder import NodeEmbedder
    from xtcl.learning.batch_settings import BatchSettings
    from xtcl.learning.trainer import TrainingSettings
    from xtcl.relations.registry import register_relation
    from xtcl.relations.relation import Relation
    from xtcl.sampling.settings import SamplerSettings
    from xtcl.sampling.xgsampler import XGSampler
    from xtcl.tasks.own_task import OwnTask
    from xtcl.tasks.recipe import Member, Plan, Recipe

__version__ = "0.1.0"

_HOMES = {
    "AddXTCLEmbedding": "xtcl.integrations.add_embedding",
    "XTCL": "xtcl.estimator",
    "BatchSettings": "xtcl.learning.batch_settings",
    "Graph": "xtcl.graph.graph",
    "LinkSplit": "xtcl.graph.link_split",
    "Member": "xtcl.tasks.recipe",
    "NodeEmbedder": "xtcl.integrations.node_embedder",
    "NodeSplit": "xtcl.graph.node_split",
    "OwnTask": "xtcl.tasks.own_task",
    "Plan": "xtcl.tasks.recipe",
    "Recipe": "xtcl.tasks.recipe",
    "Relation": "xtcl.relations.relation",
    "SamplerSettings": "xtcl.sampling.settings",
    "TrainingSettings": "xtcl.learning.trainer",
    "XGSampler": "xtcl.sampling.xgsampler",
    "block_model": "xtcl.graph.datasets",
    "check_no_leak": "xtcl.graph.leaks",
    "link_split": "xtcl.graph.link_split",
    "load_dataset": "xtcl.graph.datasets",
    "node_split": "xtcl.graph.node_split",
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
