"""Names of stored files and of checkpoints depend on all code that decides what is in them."""

from __future__ import annotations

import ast
from importlib.util import find_spec
from pathlib import Path

import pytest
from layers import imports

from xtcl.prepare import RESULT_CODE
from xtcl.relations.store.key import CODE_OF_RELATIONS
from xtcl.sampling.positives import CODE_OF_POSITIVES

NOT_DECISIVE = {
    "xtcl": "the version",
    "xtcl.code_digest": "makes the names",
    "xtcl.errors": "messages",
    "xtcl.files": "writes files atomically",
    "xtcl.progress": "messages",
    "xtcl.renamed": "old names; what they stand for is hashed",
}
"""Modules that a key leaves out, and why."""

GRAPH = {
    f"xtcl.graph.{name}": "the graph that it makes is hashed"
    for name in ("convert", "encoding", "graph", "labels", "save", "split_check", "splits")
} | {"xtcl.graph": "the same", "xtcl.graph.validation": "the same"}

DEVICE = {"xtcl.device": "here only for the memory that is there"}

PLANNING = {
    f"xtcl.planning.{name}": "the configuration with the plan is hashed"
    for name in ("memory_plan", "sizes")
}


def covered(module: str, code: tuple[str, ...]) -> bool:
    return any(module == each or module.startswith(f"{each}.") for each in code)


def files_of(module: str) -> list[Path]:
    spec = find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    path = Path(spec.origin)
    return list(path.parent.rglob("*.py")) if path.name == "__init__.py" else [path]


@pytest.mark.parametrize(
    ("code", "left_out"),
    [
        (CODE_OF_RELATIONS, NOT_DECISIVE | GRAPH | DEVICE),
        (CODE_OF_POSITIVES, NOT_DECISIVE | GRAPH | DEVICE),
        (RESULT_CODE, NOT_DECISIVE | GRAPH | PLANNING),
    ],
    ids=["relations", "positives", "fit"],
)
def test_all_that_is_imported_is_in_the_key_or_left_out_for_a_reason(
    code: tuple[str, ...], left_out: dict[str, str]
) -> None:
    missing = {
        f"{path.name} imports {module}"
        for package in code
        for path in files_of(package)
        for module in imports(ast.parse(path.read_text(encoding="utf-8")))
        if covered(module, ("xtcl",)) and not covered(module, code) and module not in left_out
    }
    assert missing == set()


def test_what_decides_rows_decides_positives_and_what_decides_positives_decides_a_fit() -> None:
    assert set(CODE_OF_RELATIONS) < set(CODE_OF_POSITIVES) < set(RESULT_CODE)
