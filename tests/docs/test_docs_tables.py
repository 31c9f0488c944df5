"""The example of docs/tables.md runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from xtcl.cli.main import app
from xtcl.graph.tables.spec import TableSpec, spec_from_toml

pytestmark = pytest.mark.slow


PAGE = (Path(__file__).parents[2] / "docs" / "tables.md").read_text(encoding="utf-8")


def blocks(kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", PAGE, flags=re.DOTALL)


@pytest.fixture(autouse=True)
def _files_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = re.findall(r"`(\w+\.csv)`:", PAGE)
    for name, text in zip(names, blocks("csv"), strict=True):
        Path(name).write_text(text, encoding="utf-8")
    Path("accounts.toml").write_text(blocks("toml")[0], encoding="utf-8")


def test_the_python_example() -> None:
    names: dict[str, Any] = {}
    exec(blocks("python")[0], names)  # noqa: S102 - the point of the test
    graph = names["graph"]
    printed_line = re.search(r"graph.encoding.attributes\n# (\(.*\))", PAGE)
    assert printed_line is not None
    assert str(graph.encoding.attributes) == printed_line[1]
    assert graph.node_ids[0] == "ann@x.org"


def run(command: str) -> str:
    result = CliRunner().invoke(
        app, command.split(), catch_exceptions=False, env={"COLUMNS": "100"}
    )
    assert result.exit_code == 0, result.stderr
    return "\n".join(line.rstrip() for line in result.stdout.splitlines()) + "\n"


def test_the_command_and_what_it_prints() -> None:
    (shown,) = blocks("console")
    command, _, printed = shown.partition("\n")
    assert run(command.removeprefix("$ xtcl ")) == printed
    assert "left out: as you asked" in run("check accounts.toml")


def test_every_key_is_explained() -> None:
    assert spec_from_toml(Path("accounts.toml")).ignore == ("joined via",)
    for key in TableSpec.__dataclass_fields__:
        assert key in PAGE
