"""State is public or of one object: no code reads a private attribute of another object."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import xtcl

ROOT = Path(xtcl.__file__).parent
NAMED_TUPLES = {"_asdict", "_fields", "_replace"}
"""Public in spite of their names; `ast` nodes have `_fields`, too."""

NEEDED = {
    "tensor._version",  # of torch, which has no public counter of writes
    # Of another object of the same class, inside the class:
    "like._matrix",  # Propagation
    "ordered._left_out",  # LinkDropout
    "other._identity",  # a user's relation
    "passing._by_relation",  # TopKRows
    "passing._sources",
}


def private_reads(tree: ast.AST) -> Iterator[str]:
    """Attributes such as `model._x` or `self.model._x`; `__class__` and its like are no secret."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute) or not node.attr.startswith("_"):
            continue
        if ast.unparse(node.value) in ("self", "cls", "super()"):
            continue
        if not node.attr.endswith("__") and node.attr not in NAMED_TUPLES:
            yield ast.unparse(node)


def test_no_private_attribute_of_another_object_is_read() -> None:
    found = {
        f"{path.relative_to(ROOT)} {read}"
        for path in sorted(ROOT.rglob("*.py"))
        for read in private_reads(ast.parse(path.read_text(encoding="utf-8")))
        if read not in NEEDED
    }
    assert found == set()


@pytest.mark.parametrize(
    "code",
    ["model._nodes([3])", "self.model_._take(x)", "rows._fitted().answer", "fit._x = 3", "f()._x"],
)
def test_the_search_finds_what_it_is_for(code: str) -> None:
    assert len(list(private_reads(ast.parse(code)))) == 1


def test_public_attributes_and_those_of_the_object_itself_are_read() -> None:
    code = "model.split_, model.__class__, self._model.split_, cls._known, pair._replace(u=3)"
    assert not list(private_reads(ast.parse(code)))
