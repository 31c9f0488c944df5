"""Data flow one way: no package imports from one to its right."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import xtcl

ROOT = Path(xtcl.__file__).parent
LAYERS = [
    "errors files progress device launched ranks memory gpu_memory recorded",
    "graph",
    "relations",
    "sampling",
    "learning",
    "tasks",
    "planning",
    "baselines",
    "experiments",
    "report answers runs",
    "estimator",
    "integrations",
    "cli __main__ __init__",
]
RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer.split()}


def imports(tree: ast.Module) -> Iterator[str]:
    """Modules of xtcl that are imported when the code runs, at the top or inside functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            node.body = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (name.name for name in node.names)


@pytest.mark.parametrize("path", sorted(ROOT.rglob("*.py")), ids=lambda p: str(p.relative_to(ROOT)))
def test_no_import_from_the_right(path: Path) -> None:
    own = path.relative_to(ROOT).parts[0].removesuffix(".py")
    for module in imports(ast.parse(path.read_text())):
        parts = module.split(".")
        if parts[0] == "xtcl" and len(parts) > 1:
            assert RANK[parts[1]] <= RANK[own], f"{path.name} imports {module}"


def test_every_package_has_its_place() -> None:
    there = {path.name.removesuffix(".py") for path in ROOT.iterdir() if path.suffix in ("", ".py")}
    assert there - {"__pycache__"} == set(RANK)
