"""The examples in the relations' docstrings are true."""

from __future__ import annotations

import doctest
import importlib

import pytest

from xtcl.relations.registry import PAPER_RELATIONS


@pytest.mark.parametrize("module", [kind.__module__ for kind in PAPER_RELATIONS])
def test_docstring_examples(module: str) -> None:
    failed, tried = doctest.testmod(importlib.import_module(module))
    assert tried >= 2
    assert failed == 0
