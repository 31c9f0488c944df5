"""The notebooks run from top to bottom in a kernel of Jupyter."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

import xtcl

pytestmark = pytest.mark.slow


FOLDER = Path(__file__).parents[2] / "docs" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
FORGET = "%reset -f"


def read(path: Path) -> Any:
    return nbformat.read(path, as_version=4)


def text_of(cell: Any) -> str:
    """All that a cell printed or showed as text."""
    shown = (out.get("text") or out["data"].get("text/plain", "") for out in cell["outputs"])
    return "\n".join(shown)


@pytest.mark.filterwarnings("default")  # of Jupyter's own parts
def test_they_run(tmp_path: Path) -> None:
    together = nbformat.v4.new_notebook()  # one kernel, that torch is imported once
    for path in NOTEBOOKS:
        together.cells += [*read(path).cells, nbformat.v4.new_code_cell(FORGET)]
    source = str(Path(xtcl.__file__).parents[1])
    client = NotebookClient(
        together, timeout=120, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
    )
    client.execute(env=os.environ | {"PYTHONPATH": source})
    printed = "\n".join(text_of(cell) for cell in together.cells if cell.cell_type == "code")
    assert "% of the papers that were hidden" in printed
    assert "AUC 0." in printed
    assert "stands out" in printed
    assert "XTCL with these parts:" in printed
    assert "own_method" in printed


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_they_are_kept_without_outputs(path: Path) -> None:
    for cell in read(path).cells:
        if cell.cell_type == "code":
            assert cell["outputs"] == []
            assert cell["execution_count"] is None


def test_there_are_three_and_the_page_lists_them() -> None:
    index = (FOLDER / "index.md").read_text(encoding="utf-8")
    assert len(NOTEBOOKS) == 3
    assert all(f"]({path.name})" in index for path in NOTEBOOKS)
