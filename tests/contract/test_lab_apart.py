"""The laboratory stands apart: no fit loads the paper's competitors, its tables or its figures.

Only one that is asked by name to compare with a competitor of the paper loads it.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from layers import imports
from small_runs import python

import xtcl

ROOT = Path(xtcl.__file__).parent

LOADED = """
import sys
loaded = sorted(name for name in sys.modules if name.startswith("xtcl.lab"))
assert loaded == [], loaded
"""
GRAPH = """
from xtcl.graph.datasets.synthetic import block_model
graph = block_model(60, num_classes=3, num_attributes=8, homophily=0.9, seed=0)
"""
IN_PYTHON = """
from xtcl import XTCL, node_split, link_split
split = {"nodes": node_split, "links": link_split}[sys.argv[1]](graph, seed=0)
model = XTCL(task=sys.argv[1], epochs=1, random_state=0).fit(graph, split)
model.save(sys.argv[2])
XTCL.load(sys.argv[2])
"""
BY_COMMAND = """
from xtcl.cli.main import app
graph.save("graph.npz")
options = ["--task", sys.argv[1], "--out", sys.argv[2], "--epochs", "1", "--compare", "all"]
try:
    app(["fit", "graph.npz", *options])
except SystemExit as ended:
    assert ended.code in (0, None), ended.code
"""


@pytest.mark.slow
@pytest.mark.parametrize("task", ["nodes", "links"])
@pytest.mark.parametrize("way", [IN_PYTHON, BY_COMMAND], ids=["python", "command"])
def test_no_fit_loads_the_laboratory(
    way: str, task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ended = python("-c", "import sys\n" + GRAPH + way + LOADED, task, str(tmp_path / "run"))
    assert ended.returncode == 0, ended.stderr


def test_only_commands_of_its_own_import_the_laboratory() -> None:
    found = {
        path.relative_to(ROOT).as_posix()
        for path in ROOT.rglob("*.py")
        if path.relative_to(ROOT).parts[0] != "lab"
        for module in imports(ast.parse(path.read_text(encoding="utf-8")))
        if module.startswith("xtcl.lab")
    }
    assert found == {"cli/evaluate.py", "cli/listings.py"}  # evaluate and reproduce; methods
