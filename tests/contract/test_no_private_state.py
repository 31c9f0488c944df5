"""The fitted state of `XTCL` is public: no other module reads a private attribute of it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import xtcl

ROOT = Path(xtcl.__file__).parent
MODELS = {"model", "xtcl", "estimator", "fit", "fitted"}
"""Names that a model goes by."""


def private_reads(tree: ast.AST) -> Iterator[str]:
    """Attributes such as `model._x` or `self.model._x`; `__class__` and its like are no secret."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute) or not node.attr.startswith("_"):
            continue
        owner = node.value
        name = owner.id if isinstance(owner, ast.Name) else getattr(owner, "attr", "")
        if name.removesuffix("_") in MODELS and not node.attr.endswith("__"):
            yield f"line {node.lineno}: {ast.unparse(node)}"


def test_no_module_reads_a_private_attribute_of_a_model() -> None:
    offenders = [
        f"{path.relative_to(ROOT)} {found}"
        for path in sorted(ROOT.rglob("*.py"))
        if path.name != "estimator.py"
        for found in private_reads(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert offenders == []


@pytest.mark.parametrize(
    "code", ["model._nodes([3])", "self.model_._take(x)", "model._fitted().answer", "fit._x = 3"]
)
def test_the_search_finds_what_it_is_for(code: str) -> None:
    assert len(list(private_reads(ast.parse(code)))) == 1


def test_public_attributes_are_read() -> None:
    assert not list(private_reads(ast.parse("model.split_, model.__class__, self._model.split_")))
