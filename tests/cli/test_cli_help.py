"""Help fits on a screen, and the shell completes commands and options."""

from __future__ import annotations

import importlib.metadata
import re

import pytest
from typer.testing import CliRunner

from xtcl.cli.listings import OPTIONAL_PACKAGES
from xtcl.cli.main import app

LINES, COLUMNS = 45, 80
COMMANDS = [
    found.name or found.callback.__name__ for found in app.registered_commands if found.callback
]


def shown(*arguments: str) -> list[str]:
    result = CliRunner().invoke(
        app, [*arguments, "--help"], catch_exceptions=False, env={"COLUMNS": str(COLUMNS)}
    )
    assert result.exit_code == 0
    return result.stdout.splitlines()


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_a_command_fits_on_a_screen(command: str) -> None:
    lines = shown(command)
    assert len(lines) <= LINES, "shorten the texts of its options, or the docstring"
    assert max(map(len, lines)) <= COLUMNS
    assert not any("<bool>" in line for line in lines)
    assert any(line.strip().startswith(f"Example: xtcl {command}") for line in lines)


def test_the_help_of_all_fits_on_a_screen() -> None:
    lines = shown()
    assert len(lines) <= LINES
    assert not any("<bool>" in line for line in lines)


def completed(words: str, shell: str = "bash") -> list[str]:
    """What a shell offers after `words`."""
    typed = words.split(" ")
    asked = {
        "_XTCL_COMPLETE": f"complete_{shell}",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(typed) - 1),
        "_TYPER_COMPLETE_ARGS": words,  # zsh and fish
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }
    result = CliRunner().invoke(app, [], prog_name="xtcl", env=asked)
    return re.findall(r"[\w-]+", result.stdout)


def test_the_shell_completes_commands() -> None:
    assert completed("xtcl pre") == ["predict"]
    assert set(COMMANDS) <= set(completed("xtcl "))


def test_the_shell_completes_options_and_their_values() -> None:
    assert completed("xtcl fit --la") == ["--label"]
    assert completed("xtcl fit --task ") == ["nodes", "links"]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_complete_too(shell: str) -> None:
    assert "predict" in completed("xtcl pre", shell)


def test_doctor_knows_what_the_extras_are_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    text = CliRunner().invoke(app, ["doctor"], env={"COLUMNS": "100"}).stdout
    for name, use in OPTIONAL_PACKAGES.items():
        assert f"missing: pip install {name} (for {use})" in text
