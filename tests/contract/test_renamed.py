"""Old names that documents mention still work, and say what they are called now."""

from __future__ import annotations

import importlib

import pytest

import xtcl
from xtcl.renamed import MODULES, NAMES


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
