"""The examples of README and documentation run as they stand and print what the pages show."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from page_examples import run_page, same
from relation_facts import FOLDER, facts, filled
from relation_pictures import draw
from small_runs import shrink_recipes, small_graph
from small_stores import open_or_compute
from typer.main import get_command
from typer.testing import CliRunner

from xtcl import XTCL, block_model
from xtcl.cli.main import app
from xtcl.relations.link import Link
from xtcl.relations.pagerank import PageRank
from xtcl.relations.registry import PAPER_RELATIONS, forget_relation, relation_names
from xtcl.relations.relation import Relation
from xtcl.relations.sparse import SparseRows
from xtcl.relations.store.parquet import StoredRelation
from xtcl.relations.store.relation_store import RelationStore, StoreEntry
from xtcl.relations.view import TrainingView

pytestmark = pytest.mark.slow


DOCS = Path(__file__).parents[2] / "docs"


PAGES = [
    "tutorial.md",
    "guides/links.md",
    "guides/no-links.md",
    "guides/large-graphs.md",
    "guides/own-relations.md",
    "guides/own-tasks.md",
    "guides/own-encoders.md",
    "guides/use-one-part.md",
    "memory.md",
    "ranks.md",
    "relation-store.md",
    "top-k.md",
]


# These print nothing, so a small fit will do, and a small graph in the place of Cora.
SHRUNK = ["guides/large-graphs.md", "ranks.md", "relation-store.md", "top-k.md"]


STARTED = re.compile(r"^```console\n\$ torchrun (.*?)^```$", flags=re.DOTALL | re.M)


@pytest.fixture
def _own_relations_are_forgotten() -> Iterator[None]:
    known = set(relation_names())
    yield
    for name in set(relation_names()) - known:
        forget_relation(name)


@pytest.mark.usefixtures("_own_relations_are_forgotten")
@pytest.mark.parametrize("name", PAGES)
def test_the_page(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    if name in SHRUNK:
        shrink_recipes(monkeypatch, epochs=2)
        small = block_model(120, num_classes=3, num_attributes=16, seed=0)
        for home in ("xtcl.graph.datasets", "xtcl.graph.datasets.load"):
            monkeypatch.setattr(f"{home}.load_dataset", lambda *_: small)
    ran = 0
    # What torchrun starts is tried by the tests of ranks.
    for shown in run_page(STARTED.sub("", (DOCS / name).read_text(encoding="utf-8"))):
        assert same(shown.body, shown.now), shown.now
        ran += 1
    assert ran


@pytest.mark.parametrize(
    ("section", "most"),
    [
        ("A relation", 3),
        ("The sampler", 5),
        ("Positives in your own training loop", 25),
        ("A method of your own in `evaluate`", 12),
    ],
)
def test_the_script_for_one_part_is_short(section: str, most: int) -> None:
    page = (DOCS / "guides" / "use-one-part.md").read_text(encoding="utf-8")
    _, text = page.split(f"\n## {section}\n")
    script = text[text.index("```python\n") + 10 :].partition("```")[0]
    lines = [line for line in script.splitlines() if line.strip()]
    assert 0 < len(lines) <= most


def test_examples_of_one_part_are_as_long_as_the_page_says() -> None:
    page = (DOCS / "guides" / "use-one-part.md").read_text(encoding="utf-8")
    longer: list[str] = []
    for section in page.split("\n## ")[1:]:
        title, _, text = section.partition("\n")
        for script in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
            lines = [line for line in script.splitlines() if line.strip()]
            assert len(lines) <= 25, title
            longer += [title] * (len(lines) > 10)
    assert longer == ["Positives in your own training loop"] * 2  # the loop, and a strategy
    assert "at most ten lines of code; the training loop and the strategy of your own" in page


def test_what_torchrun_starts_is_understood() -> None:
    group: Any = get_command(app)
    started = STARTED.findall((DOCS / "ranks.md").read_text(encoding="utf-8"))
    for command in started:
        _, _, ours = command.replace("\\\n", " ").partition(" -m xtcl ")
        name, *arguments = shlex.split(ours)
        assert group.commands[name].make_context(name, arguments).params["out"]
    assert len(started) == 2


@pytest.mark.parametrize(
    ("shown", "now", "agree"),
    [
        ("accuracy 85.02", "accuracy 85.03", True),
        ("accuracy 85.02", "accuracy 65.02", False),
        ("a 1  b\n", "a 1   b\n", True),
        ("one 1\n", "two 1\n", False),
        ("one\n", "one\ntwo\n", False),
        ("1,140 pairs", "1,141 pairs", True),
    ],
)
def test_last_digits_may_differ_and_nothing_else(shown: str, now: str, agree: bool) -> None:
    assert same(shown, now) is agree


# The README's Python examples run as they stand.

README = Path(__file__).parents[2] / "README.md"


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


# The example of docs/answers.md runs as it stands, from top to bottom.

PAGE = (Path(__file__).parents[2] / "docs" / "answers.md").read_text(encoding="utf-8")


def run(command: str, shown: list[str]) -> None:
    """Run a command; what the page shows of its output is how that begins."""
    result = CliRunner().invoke(app, command.split(), catch_exceptions=False)
    assert result.exit_code == 0, result.stderr
    assert result.stdout.splitlines()[: len(shown)] == shown


def test_the_page_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


# The pages of the relations, their figures and their pictures say what the code does today.

each = pytest.mark.parametrize("kind", PAPER_RELATIONS, ids=lambda kind: str(kind.name))


def page_of(kind: type[Relation]) -> str:
    return (FOLDER / f"{kind.name}.md").read_text(encoding="utf-8")


@each
def test_the_facts_are_those_of_the_docstring(kind: type[Relation]) -> None:
    stated = facts(kind)
    assert {"Range", "Cost", "Citation"} <= set(stated)
    assert any(word.startswith("Isolated node") for word in stated)
    assert page_of(kind) == filled(page_of(kind), kind)
    assert stated["Citation"] in page_of(kind)


@each
def test_the_picture_is_drawn_from_the_relation(kind: type[Relation]) -> None:
    kept = (FOLDER / f"{kind.name}.svg").read_text(encoding="utf-8")
    assert draw(kind()) == kept
    assert f"]({kind.name}.svg)" in page_of(kind)


@each
def test_the_four_node_example(kind: type[Relation]) -> None:
    (example,) = run_page(page_of(kind))
    assert kind.name in example.body
    assert same(example.body, example.now)


def test_the_index_lists_them_all() -> None:
    index = (Path(FOLDER) / "index.md").read_text(encoding="utf-8")
    assert all(f"]({kind.name}.md)" in index for kind in PAPER_RELATIONS)
    assert len(list(run_page(index))) == 1


def test_examples_import_relations_from_where_people_look() -> None:
    for page in DOCS.rglob("*.md"):
        assert "from xtcl.relations.registry" not in page.read_text(encoding="utf-8"), page


# The queries of docs/relation-store.md run as they stand, and agree with the store.

PAGE_QUERIES = (Path(__file__).parents[2] / "docs" / "relation-store.md").read_text(
    encoding="utf-8"
)


QUERIES = [
    query
    for block in re.findall(r"```sql\n(.*?)```", PAGE_QUERIES, flags=re.DOTALL)
    for query in re.split(r"(?<=;)\s+", block)
    if query
]


NODE = 42


"""The one that the page asks for."""


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RelationStore:
    monkeypatch.chdir(tmp_path)
    store = RelationStore(Path("relations"))
    view = TrainingView.of(small_graph())
    for relation, nodes in ((Link(), None), (PageRank(), None), (PageRank(), np.arange(9, 50))):
        open_or_compute(store, view, relation, (0.7, 0.9), nodes).close()
    return store


def rows_of(store: RelationStore, entry: StoreEntry) -> SparseRows:
    with StoredRelation(store.folder / entry.file) as stored:
        return stored.rows(0, stored.num_nodes)


def answers(query: str) -> list[tuple[object, ...]]:
    return duckdb.execute(query).fetchall()


def test_the_page_has_the_queries_that_are_tested_here() -> None:
    starts = ["SELECT filename", "-- which relation", "-- the nodes most alike"]
    assert len(QUERIES) == len(starts)
    assert all(query.startswith(start) for query, start in zip(QUERIES, starts, strict=True))


def test_pairs_nodes_and_mean_similarity_of_each_file(store: RelationStore) -> None:
    expected = []
    for entry in sorted(store.listing(), key=lambda entry: -entry.pairs):
        rows = rows_of(store, entry)
        name = f"relations/{entry.file}"
        mean = pytest.approx(rows.values.double().mean().item())
        expected.append((name, entry.pairs, len(np.unique(rows.row)), mean))
    assert answers(QUERIES[0]) == expected


def test_which_relation_is_in_which_file(store: RelationStore) -> None:
    expected = {(f"relations/{entry.file}", entry.relation) for entry in store.listing()}
    found = answers(QUERIES[1])
    assert set(found) == expected
    assert len(found) == len(expected)


def test_the_nodes_most_alike_to_one(store: RelationStore) -> None:
    for entry in store.listing():
        found = answers(QUERIES[2].replace("FILE.parquet", entry.file))
        rows = rows_of(store, entry).between(NODE, NODE + 1)
        columns = rows.to_numpy()[1:]
        expected = list(zip(*(column.tolist() for column in columns), strict=True))
        assert sorted(found) == sorted(expected)  # equals come in any order
        assert [row[1] for row in found] == sorted((row[1] for row in expected), reverse=True)
        assert found
