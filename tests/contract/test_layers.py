"""Data flow one way: no package imports from one to its right."""

from __future__ import annotations

import ast
from pathlib import Path

from layers import RANK, imports

import xtcl

ROOT = Path(xtcl.__file__).parent


def test_no_import_from_the_right() -> None:
    offenders = []
    for path in sorted(ROOT.rglob("*.py")):
        own = path.relative_to(ROOT).parts[0].removesuffix(".py")
        for module in imports(ast.parse(path.read_text(encoding="utf-8"))):
            parts = module.split(".")
            if parts[0] == "xtcl" and len(parts) > 1 and RANK[parts[1]] > RANK[own]:
                offenders.append(f"{path.relative_to(ROOT)} imports {module}")
    assert offenders == []


def test_every_package_has_its_place() -> None:
    there = {path.name.removesuffix(".py") for path in ROOT.iterdir() if path.suffix in ("", ".py")}
    assert there - {"__pycache__"} == set(RANK)
