"""Figures of the code base for docs/design.md: `python tools/code_figures.py [SRC] [--trace]`.

SRC is the folder of the package (src/xtcl by default). With `--trace` a fit of Cora is run on the
command line for each task, and the functions and modules it enters are counted.
"""

from __future__ import annotations

import argparse
import ast
import io
import os
import subprocess
import sys
import tempfile
import tokenize
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

RESOLVED = {
    "configuration": ("XTCL.resolved_recipe", "resolve_config", "XTCL.resolved_config"),
    "training data": ("training_side", "training_data"),
    "memory plan": ("plan_fit",),
    "device": ("pick_device",),
    "task": ("make_task",),
    "identity": ("fit_identity", "PreparedFit.identity"),
    "test scores": ("score_on_test", "score_test_side"),
}
"""What a fit should do once, and the functions that have done it."""

TRACE = """
import json, os, sys, threading
from collections import Counter
import xtcl
from xtcl.cli.main import main

root = os.path.dirname(xtcl.__file__)
calls = Counter()

def note(frame, event, arg):
    code = frame.f_code
    # Bodies of classes and modules are no functions: they have no fast locals.
    if event == "call" and code.co_flags & 1 and code.co_filename.startswith(root):
        calls[os.path.relpath(code.co_filename, root), code.co_qualname] += 1

threading.setprofile(note)
sys.setprofile(note)
try:
    main()
except SystemExit:
    pass
sys.setprofile(None)
with open(os.environ["TRACE_OUT"], "w") as out:
    json.dump([[file, name, count] for (file, name), count in calls.items()], out)
"""


def code_lines(text: str) -> tuple[int, int]:
    """Lines of imports and of other code; comments, docstrings and blank lines do not count."""
    tree = ast.parse(text)
    imports: set[int] = set()
    docstrings: set[int] = set()
    for node in ast.walk(tree):
        span = range(getattr(node, "lineno", 1), (getattr(node, "end_lineno", 0) or 0) + 1)
        if isinstance(node, ast.Import | ast.ImportFrom):
            imports.update(span)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            docstrings.update(span)
    skipped = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
    used: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in skipped and token.type != tokenize.ENDMARKER:
            used.update(range(token.start[0], token.end[0] + 1))
    return len(used & imports), len(used - imports - docstrings)


def describe(name: str, paths: Iterable[Path]) -> None:
    """Print files, lines, the largest file and imports per line."""
    texts = {path: path.read_text(encoding="utf-8") for path in paths}
    if not texts:
        return
    lines = {path: text.count("\n") for path, text in texts.items()}
    imports, others = map(sum, zip(*(code_lines(text) for text in texts.values()), strict=True))
    largest = max(lines, key=lambda path: lines[path])
    print(
        f"{name}: {len(texts)} files, {sum(lines.values()):,} lines, largest "
        f"{largest.name} ({lines[largest]}), {imports / others:.3f} imports per line"
    )


def trace(source: Path, task: str) -> None:
    """Print how many functions and modules a fit of Cora enters, and what it resolves how often."""
    import json

    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "calls.json"
        command = ["xtcl", "fit", "cora", "--task", task, "--out", f"{folder}/run"]
        script = f"import sys; sys.argv = {command!r}\n{TRACE}"
        env = os.environ | {"PYTHONPATH": str(source.parent), "TRACE_OUT": str(out)}
        subprocess.run([sys.executable, "-c", script], env=env, check=True, capture_output=True)  # noqa: S603
        calls = json.loads(out.read_text())
    named = [(file, name) for file, name, _ in calls if "<" not in name.rpartition(".")[2]]
    counts: Counter[str] = Counter()
    for _, name, count in calls:
        for what, names in RESOLVED.items():
            counts[what] += count if name in names else 0
    resolved = ", ".join(f"{what} {counts[what]}" for what in RESOLVED)
    print(f"fit cora --task {task}: {len(named)} functions in {len({f for f, _ in named})} modules")
    print(f"  resolved: {resolved}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", nargs="?", type=Path, default=Path("src/xtcl"))
    parser.add_argument("--trace", action="store_true")
    asked = parser.parse_args()
    files = sorted(asked.source.resolve().rglob("*.py"))
    parts: dict[str, list[Path]] = {"product": [], "laboratory": [], "scripts": []}
    for path in files:
        folders = set(path.relative_to(asked.source.resolve()).parts[:-1])
        in_lab = folders & {"lab", "experiments", "reproduction"}
        parts["scripts" if "scripts" in folders else "laboratory" if in_lab else "product"].append(
            path
        )
    describe("all", files)
    for name, paths in parts.items():
        describe(name, paths)
    if asked.trace:
        for task in ("nodes", "links"):
            trace(asked.source.resolve(), task)
