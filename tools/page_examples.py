"""Run the examples of a page from top to bottom, and write down what they print.

    python tools/page_examples.py docs/tutorial.md ...

Blocks of Python share their names, commands share a folder that is empty at first, and a CSV or
TOML block after a line such as "`papers.toml`:" is a file. The text under a command is replaced by
what it prints now; a command without text under it stays so. The tests check the pages with the
same functions.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from xtcl.cli.main import app

BLOCK = re.compile(
    r"(?:`(?P<file>[\w.-]+)`:\n\n)?^```(?P<kind>python|pycon|console|csv|toml)\n(?P<body>.*?)^```$",
    flags=re.DOTALL | re.MULTILINE,
)
NUMBER = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?")
WIDTH = "100"
PROGRESS = re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d .*\n", flags=re.MULTILINE)
"""Lines of progress, in place of which a terminal shows bars."""


@dataclass(frozen=True)
class Shown:
    """A block as the page has it and as it comes out now, with its place in the page."""

    start: int
    end: int
    body: str
    now: str


def run_page(text: str, names: dict[str, Any] | None = None) -> Iterator[Shown]:
    """Run all blocks of a page in the current folder."""
    shared: dict[str, Any] = {"__name__": "__main__"} if names is None else names
    for found in BLOCK.finditer(text):
        kind, body = found["kind"], found["body"]
        now = body
        if kind == "python":
            exec(compile(body, "page", "exec", dont_inherit=True), shared)  # noqa: S102 - the point of it
        elif kind == "pycon":
            now = _session(body, shared)
        elif kind == "console":
            now = "".join(_command(part) for part in re.split(r"^\$ ", body, flags=re.M)[1:])
        elif found["file"]:
            Path(found["file"]).write_text(body, encoding="utf-8")
        yield Shown(*found.span("body"), body, now)


def _command(part: str) -> str:
    """A command and what it prints; `| head -n 3` keeps three lines of it."""
    line, _, shown = part.partition("\n")
    command, _, head = line.partition(" | head -n ")
    name, *arguments = shlex.split(command)
    if name != "xtcl":
        raise ValueError(f"Only xtcl is run, not '{command}'.")
    result = CliRunner().invoke(app, arguments, catch_exceptions=False, env={"COLUMNS": WIDTH})
    if result.exit_code:
        raise ValueError(f"'{command}' ended with {result.exit_code}: {result.stderr}")
    lines = [printed.rstrip() for printed in PROGRESS.sub("", result.output).splitlines()]
    printed = "\n".join(lines[: int(head)] if head else lines).strip("\n")
    return f"$ {line}\n" + (f"{printed}\n" if shown and printed else "")


def _session(body: str, names: dict[str, Any]) -> str:
    """Lines after >>> and what they print."""
    output = []
    for example in doctest.DocTestParser().get_examples(body):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            code = compile(example.source, "page", "single", dont_inherit=True)
            exec(code, names)  # noqa: S102
        first, *more = example.source.splitlines()
        output.append("\n".join([f">>> {first}", *(f"... {line}".rstrip() for line in more)]))
        output.append("\n".join(line.rstrip() for line in printed.getvalue().splitlines()))
    return "\n".join(part for part in output if part) + "\n"


def same(shown: str, now: str, tolerance: float = 0.02) -> bool:
    """Whether two texts agree but for the last digits of numbers, which depend on the processor."""
    for one, other in zip_longest(shown.splitlines(), now.splitlines()):
        if one == other:
            continue
        if one is None or other is None:
            return False
        if NUMBER.sub("#", " ".join(one.split())) != NUMBER.sub("#", " ".join(other.split())):
            return False
        for left, right in zip(NUMBER.findall(one), NUMBER.findall(other), strict=True):
            a, b = (float(number.replace(",", "")) for number in (left, right))
            if abs(a - b) > tolerance * max(1.0, abs(a)):
                return False
    return True


def refresh(page: Path) -> None:
    """Write the page with what its examples print now."""
    text = page.read_text(encoding="utf-8")
    parts, done = [], 0
    for shown in run_page(text):
        parts += [text[done : shown.start], shown.now]
        done = shown.end
    page.write_text("".join(parts) + text[done:], encoding="utf-8")


def main() -> None:
    """Refresh the pages named on the command line, each in a folder of its own."""
    for page in [Path(name).resolve() for name in sys.argv[1:]]:
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            refresh(page)
            os.chdir(page.parent)


if __name__ == "__main__":
    main()
