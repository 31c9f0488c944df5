"""A public name means one thing: no two modules define the same one."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import xtcl

ROOT = Path(xtcl.__file__).parent
# A command of the command line is called as the function of the library that does its work.
COMMANDS = {"embed", "evaluate", "tune"}
# Every script of the laboratory is a program of its own, and may have these functions.
PROGRAM = {"main", "measure", "method_of", "run"}


def defined(tree: ast.Module) -> set[str]:
    """Public classes, functions, constants and type aliases that a module defines itself."""
    names = set()
    for statement in tree.body:
        if isinstance(statement, ast.FunctionDef | ast.ClassDef):
            names.add(statement.name)
        elif isinstance(statement, ast.Assign | ast.AnnAssign):
            # Modules may each have their `T`.
            if isinstance(statement.value, ast.Call) and "TypeVar" in ast.dump(
                statement.value.func
            ):
                continue
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            names |= {
                node.id
                for target in targets
                for node in ast.walk(target)
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
            }
    return {name for name in names if not name.startswith("_")}


def test_no_public_name_is_defined_in_two_modules() -> None:
    homes = defaultdict(list)
    for path in sorted(ROOT.rglob("*.py")):
        place = path.relative_to(ROOT).as_posix()
        names = defined(ast.parse(path.read_text(encoding="utf-8")))
        for name in names - PROGRAM if "scripts" in path.parts else names:
            homes[name].append(place)
    repeated = {name: places for name, places in homes.items() if len(places) > 1}
    for name in COMMANDS & repeated.keys():
        repeated[name] = [place for place in repeated[name] if not place.startswith("cli/")]
    offenders = [
        f"{name}: {', '.join(places)}"
        for name, places in sorted(repeated.items())
        if len(places) > 1
    ]
    assert offenders == []
