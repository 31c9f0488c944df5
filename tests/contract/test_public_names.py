"""The names that `xtcl` offers, and that asking for the package alone costs nothing."""

from __future__ import annotations

import ast
import importlib
import json
from pathlib import Path

import pytest
from small_runs import python

import xtcl
from xtcl import relations

HEAVY = ("torch", "torch_geometric", "sklearn", "scipy", "numpy", "pyarrow", "matplotlib", "rich")


@pytest.mark.parametrize("name", xtcl.__all__)
def test_every_public_name_is_there(name: str) -> None:
    found = getattr(xtcl, name)
    if name != "__version__":
        assert found.__name__ == name
        assert found.__doc__


def test_the_readme_s_names_are_public() -> None:
    assert {"XTCL", "load_dataset", "node_split", "link_split", "Graph", "CustomTask"} <= set(
        xtcl.__all__
    )


def test_the_lists_of_names_agree() -> None:
    assert set(xtcl.__all__) == set(xtcl._HOMES) | {"__version__"}
    assert dir(xtcl) == sorted(xtcl.__all__)
    tree = ast.parse(Path(xtcl.__file__).read_text(encoding="utf-8"))
    (checked,) = (node for node in tree.body if isinstance(node, ast.If))
    for line in checked.body:
        assert isinstance(line, ast.ImportFrom)
        assert {xtcl._HOMES[alias.name] for alias in line.names} == {line.module}


PACKAGES = (
    "baselines",
    "datasets",
    "graph",
    "model_selection",
    "nn",
    "planning",
    "relations",
    "sampling",
    "tasks",
)


@pytest.mark.parametrize("package", PACKAGES)
def test_every_name_of_a_package_is_there(package: str) -> None:
    module = importlib.import_module(f"xtcl.{package}")
    assert all(hasattr(module, name) for name in module.__all__)
    assert not hasattr(module, "rubbish")


def test_the_names_that_a_relation_of_one_s_own_takes() -> None:
    assert {"Relation", "TrainingView", "LINKS", "SparseRows", "TopK"} <= set(relations.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'xtcl' has no attribute 'rubbish'"):
        _ = xtcl.rubbish
    assert not hasattr(xtcl, "rubbish")


def test_importing_the_package_imports_nothing_heavy() -> None:
    script = "import sys, json, xtcl; print(json.dumps(sorted(sys.modules)))"
    done = python("-c", script)
    assert done.returncode == 0, done.stderr
    loaded = set(json.loads(done.stdout))
    assert "xtcl" in loaded
    assert not loaded & set(HEAVY)
