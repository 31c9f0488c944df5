"""Put the facts in the docstrings of the relations into their pages.

    python tools/relation_facts.py

The docstring of each relation gives its range, its cost, the value of an isolated node and the
citation. They replace the text between the two marks in docs/relations/NAME.md. A test compares.
"""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from xtcl.relations.registry import PAPER_RELATIONS
from xtcl.relations.relation import Relation

FOLDER = Path(__file__).parents[1] / "docs" / "relations"
FACT = re.compile(
    r"^((?:Range|Cost|Isolated node|Citation)[^:\n]*): (.*?)(?=\n\n|\n[A-Z][^:\n]*: |\Z)",
    flags=re.DOTALL | re.MULTILINE,
)
MARKS = re.compile(r"(<!-- facts -->\n).*?(<!-- end of facts -->)", flags=re.DOTALL)


def facts(kind: type[Relation]) -> dict[str, str]:
    """The facts of the docstring, by the word in front of the colon."""
    found = FACT.findall(inspect.getdoc(kind) or "")
    return {word: " ".join(text.split()) for word, text in found}


def table(kind: type[Relation]) -> str:
    """The facts as a table."""
    head = f"| Name | `{kind.name}`, in tables *{kind.title}* |"
    rows = {"Reads": ", ".join(sorted(kind.reads))} | facts(kind)
    lines = [f"| {word} | {text} |" for word, text in rows.items()]
    return "\n".join([head, "|---|---|", *lines]) + "\n"


def filled(text: str, kind: type[Relation]) -> str:
    """The page with the current facts."""
    return MARKS.sub(lambda marks: f"{marks[1]}\n{table(kind)}\n{marks[2]}", text)


def main() -> None:
    """Fill all nine pages."""
    for kind in PAPER_RELATIONS:
        page = FOLDER / f"{kind.name}.md"
        page.write_text(filled(page.read_text(encoding="utf-8"), kind), encoding="utf-8")


if __name__ == "__main__":
    main()
