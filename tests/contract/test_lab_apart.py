"""The laboratory stands apart: no fit loads the paper's competitors, its tables or its figures.

A fit that is asked to compare with one of them loads that one: `--compare all` has `sscl`.
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
assert loaded == sys.argv[3:], loaded
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
out, task = sys.argv[2], sys.argv[1]
compare = COMPARE or ("logistic,propagation,gcn" if task == "nodes" else "logistic,gcn")
options = ["--task", task, "--out", out, "--epochs", "1", "--compare", compare]
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
    script = "import sys; COMPARE = None\n" + GRAPH + way + LOADED
    ended = python("-c", script, task, str(tmp_path / "run"))
    assert ended.returncode == 0, ended.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "loaded"),
    [("nodes", ["xtcl.lab", "xtcl.lab.methods", "xtcl.lab.methods.contrastive"]), ("links", [])],
)
def test_compare_all_loads_the_file_of_sscl_alone(
    task: str, loaded: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    script = "import sys; COMPARE = 'all'\n" + GRAPH + BY_COMMAND + LOADED
    ended = python("-c", script, task, str(tmp_path / "run"), *loaded)
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
