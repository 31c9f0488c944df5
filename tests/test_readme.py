"""The README's Python examples run as they stand."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from small_runs import shrink_recipes

from xtcl import XTCL, block_model

README = Path(__file__).parents[1] / "README.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 3


@pytest.mark.parametrize("code", EXAMPLES, ids=lambda code: code.splitlines()[0][:40])
def test_example_runs(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shrink_recipes(monkeypatch, epochs=5)  # at full size they take a minute and more
    exec(compile(code, "README.md", "exec"), {})  # noqa: S102 - the point of the test


def test_the_relation_of_the_contributors_guide_works() -> None:
    guide = README.with_name("CONTRIBUTING.md").read_text()
    names: dict[str, Any] = {"__name__": __name__}
    exec(re.findall(r"```python\n(.*?)```", guide, flags=re.DOTALL)[0], names)  # noqa: S102
    graph = block_model(60)
    model = XTCL(relations=[names["TwoSteps"](), "pagerank"], width=8, epochs=2).fit(graph)
    assert {weight.relation for weight in model.relation_weights_} == {"two-steps", "pagerank"}
