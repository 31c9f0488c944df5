"""The names that `xtcl` offers, and that asking for the package alone costs nothing."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest
from small_runs import python

import xtcl

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
