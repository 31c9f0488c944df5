"""No source file can run code that it read: no pickle, no torch.load, no eval."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import xtcl

SOURCES = sorted(Path(xtcl.__file__).parent.rglob("*.py"))
MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}
CALLS = {"eval", "exec", "compile", "__import__"}
METHODS = {"torch.load", "torch.save"}  # numpy's load reads no pickle unless told to


def dangers(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (a.name for a in node.names if a.name.split(".")[0] in MODULES)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in MODULES:
            yield str(node.module)
        elif isinstance(node, ast.Call):
            called = node.func
            if isinstance(called, ast.Name) and called.id in CALLS:
                yield called.id
            if isinstance(called, ast.Attribute) and ast.unparse(called) in METHODS:
                yield ast.unparse(called)
            yield from (
                "allow_pickle"
                for word in node.keywords
                if word.arg == "allow_pickle"
                and not (isinstance(word.value, ast.Constant) and word.value.value is False)
            )


def test_nothing_that_was_read_is_run() -> None:
    found = {
        path.as_posix(): list(dangers(ast.parse(path.read_text(encoding="utf-8"))))
        for path in SOURCES
    }
    assert {path: names for path, names in found.items() if names} == {}


@pytest.mark.parametrize(
    "code",
    [
        "import pickle",
        "from joblib import load",
        "torch.load('x')",
        "np.load('x', allow_pickle=True)",
        "read_array(f, allow_pickle=anything)",
        "eval('1')",
    ],
)
def test_the_search_finds_what_it_is_for(code: str) -> None:
    assert list(dangers(ast.parse(code)))


def test_the_sources_are_there() -> None:
    assert len(SOURCES) > 80
