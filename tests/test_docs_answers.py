"""The example of docs/answers.md runs as it stands, from top to bottom."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from small_runs import shrink_recipes
from typer.testing import CliRunner

from xtcl.cli.main import app

PAGE = (Path(__file__).parents[1] / "docs" / "answers.md").read_text(encoding="utf-8")


def run(command: str, shown: list[str]) -> None:
    """Run a command; what the page shows of its output is how that begins."""
    result = CliRunner().invoke(app, command.split(), catch_exceptions=False)
    assert result.exit_code == 0, result.stderr
    assert result.stdout.splitlines()[: len(shown)] == shown


def test_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shrink_recipes(monkeypatch, epochs=5)
    names: dict[str, Any] = {}
    for kind, text in re.findall(r"```(python|console)\n(.*?)```", PAGE, flags=re.DOTALL):
        if kind == "python":
            exec(text, names)  # noqa: S102 - the point of the test
            continue
        for part in text.split("$ xtcl ")[1:]:
            command, *shown = part.splitlines()
            run(command, shown)
    assert {"embeddings.parquet", "likely.csv", "new.npz"} <= {p.name for p in tmp_path.iterdir()}
    assert names["predictions"].index.name == "node"
    assert "xtcl_embedding" in names["data"]
