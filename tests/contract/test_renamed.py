"""Old names that documents mention still work, and say what they are called now."""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from small_runs import python

import xtcl
from xtcl.relations.link import Link
from xtcl.renamed import MODULES, NAMES

DOCUMENTED = [
    "xtcl.baselines.asp.ASP",
    "xtcl.baselines.ceiling_scl.CeilingSCL",
    "xtcl.baselines.cocos.CoCoS",
    "xtcl.baselines.dgcn.DGCN",
    "xtcl.baselines.dgi.DGI",
    "xtcl.baselines.gat.GAT",
    "xtcl.baselines.gcn.GCN",
    "xtcl.baselines.logistic.Logistic",
    "xtcl.baselines.meta_pn.MetaPN",
    "xtcl.baselines.naive_tcl.NaiveTCL",
    "xtcl.baselines.naive_xgboost.NaiveXGBoost",
    "xtcl.baselines.polygcl.PolyGCL",
    "xtcl.baselines.propagation.PropagationMethod",
    "xtcl.baselines.scl.SCL",
    "xtcl.baselines.sscl.SSCL",
    "xtcl.baselines.subgraph.SubGraph",
    "xtcl.baselines.sugrl.SUGRL",
    "xtcl.estimator.XTCL",
    "xtcl.graph.datasets.load.load_dataset",
    "xtcl.graph.datasets.synthetic.block_model",
    "xtcl.graph.datasets.synthetic.random_graph",
    "xtcl.graph.graph.Graph",
    "xtcl.graph.leaks.check_no_leak",
    "xtcl.graph.link_split.LinkSplit",
    "xtcl.graph.link_split.link_split",
    "xtcl.graph.node_split.NodeSplit",
    "xtcl.graph.node_split.node_split",
    "xtcl.graph.tables.read.read_tables",
    "xtcl.integrations.add_embedding.AddXTCLEmbedding",
    "xtcl.integrations.node_embedder.NodeEmbedder",
    "xtcl.learning.batch_settings.BatchSettings",
    "xtcl.learning.trainer.TrainingSettings",
    "xtcl.memory.parse_memory",
    "xtcl.ranks.together",
    "xtcl.relations.examples.path_of_four",
    "xtcl.relations.examples.rows",
    "xtcl.relations.registry.make_relation",
    "xtcl.relations.registry.register_relation",
    "xtcl.relations.relation.Relation",
    "xtcl.relations.relation.Rows",
    "xtcl.relations.sparse.dense_rows",
    "xtcl.relations.sparse.to_device",
    "xtcl.relations.store.RelationStore",
    "xtcl.relations.view.LINKS",
    "xtcl.relations.view.TrainingView",
    "xtcl.sampling.settings.SamplerSettings",
    "xtcl.sampling.xgsampler.XGSampler",
    "xtcl.tasks.answers.NodeAnswer",
    "xtcl.tasks.calibration.sureness",
    "xtcl.tasks.node_classification.NodeClassification",
    "xtcl.tasks.own_task.OwnTask",
    "xtcl.tasks.recipe.Member",
    "xtcl.tasks.recipe.Plan",
    "xtcl.tasks.recipe.Recipe",
    "xtcl.tasks.registry.make_task",
    "xtcl.tasks.task.Task",
]
"""Dotted names in the pages of release 0.1, save xtcl.baselines.directed, which was deleted."""


@pytest.fixture(autouse=True)
def _without_old_modules() -> Iterator[None]:
    """Unload the old modules after each test: two of them cover a function of their package."""
    yield
    for name in MODULES:
        old = sys.modules.pop(name, None)
        package, _, child = name.rpartition(".")
        if old is not None and getattr(sys.modules.get(package), child, None) is old:
            delattr(sys.modules[package], child)


@pytest.mark.parametrize("old", NAMES)
def test_old_names_of_the_package(old: str) -> None:
    with pytest.warns(DeprecationWarning, match=rf"xtcl\.{old} is called xtcl\.{NAMES[old]} now"):
        found = getattr(xtcl, old)
    assert found is getattr(xtcl, NAMES[old])


@pytest.mark.parametrize(("module", "old"), [(m, name) for m in MODULES for name in MODULES[m]])
def test_old_modules(module: str, old: str) -> None:
    gone = importlib.import_module(module)
    with pytest.warns(DeprecationWarning, match=rf"{module}\.{old} is called "):
        found = getattr(gone, old)
    home, _, new = MODULES[module][old].rpartition(".")
    assert found is getattr(importlib.import_module(home), new)


def test_other_names_are_not_there() -> None:
    gone = importlib.import_module("xtcl.ranks")
    with pytest.raises(AttributeError, match=r"module 'xtcl\.ranks' has no attribute 'rubbish'"):
        _ = gone.rubbish


@pytest.mark.parametrize("documented", DOCUMENTED)
def test_documented_names_can_be_imported(documented: str) -> None:
    module, _, name = documented.rpartition(".")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        assert getattr(importlib.import_module(module), name) is not None


def test_a_function_with_the_name_of_an_old_module_stays_one() -> None:
    program = """
import warnings
import xtcl.graph
current = xtcl.graph.node_split
import xtcl.graph.node_split
import xtcl.integrations.add_embedding
from xtcl.graph import node_split
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    assert xtcl.graph.node_split.node_split is current
    assert xtcl.integrations.add_embedding.AddXTCLEmbedding is xtcl.AddXTCLEmbedding
assert [each.category for each in caught] == [DeprecationWarning] * 2, caught
graph = xtcl.block_model(60)
expected = current(graph, seed=0).fingerprint()
assert node_split(graph, seed=0).fingerprint() == expected
assert xtcl.node_split(graph, seed=0).fingerprint() == expected
"""
    done = python("-W", "error::DeprecationWarning:__main__", "-c", program)
    assert done.returncode == 0, done.stderr


def test_an_old_module_without_a_function_of_its_name_is_not_called() -> None:
    gone: Any = importlib.import_module("xtcl.graph.leaks")
    with pytest.raises(TypeError, match=r"module 'xtcl\.graph\.leaks' cannot be called"):
        gone()


def test_old_properties_of_a_relation() -> None:
    with pytest.warns(DeprecationWarning, match=r"Relation\.label_free is called Relation\.shared"):
        assert Link().label_free is Link().shared_by_folds
    with pytest.warns(DeprecationWarning, match=r"Relation\.foreign is called not Relation"):
        assert not Link().foreign
