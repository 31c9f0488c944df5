"""Hashes of source code."""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from user_code import RELATION, user_module

import xtcl
from xtcl.code_digest import code_digest, describe_value, source_digest, user_code_digest
from xtcl.relations.link import Link
from xtcl.relations.relation import Relation

CODE = '''
"""What the module is for."""

from xtcl.relations.rows import DenseRows

LIMIT = 3
"""The most there may be."""


def limited(number: int) -> int:
    """At most LIMIT."""
    return min(number, LIMIT)  # in a comment
'''


def digest(folder: Path, **modules: str) -> str:
    """The digest of a folder with these modules and no others."""
    for path in folder.glob("*.py"):
        path.unlink()
    for name, source in modules.items():
        (folder / f"{name}.py").write_text(source)
    return source_digest(folder.glob("*.py"))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("# in a comment", "# in another comment"),
        ("At most LIMIT.", "No more than LIMIT."),
        ("The most there may be.", "What may be."),
        ("What the module is for.", "Limits."),
        ("min(number, LIMIT)", "min(\n        number,\n        LIMIT,\n    )"),
        ("xtcl.relations.rows", "xtcl.relations.other_name"),
    ],
)
def test_comments_docstrings_and_formatting_keep_the_digest(
    tmp_path: Path, old: str, new: str
) -> None:
    assert old in CODE
    assert digest(tmp_path, one=CODE) == digest(tmp_path, one=CODE.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("LIMIT = 3", "LIMIT = 4"),
        ("LIMIT = 3", "LIMIT = 3.0"),
        ("min(", "max("),
        ("import DenseRows", "import TopKRows"),
        ("number: int", "number: float"),
        ("    return", "    number += 1\n    return"),
    ],
)
def test_code_changes_the_digest(tmp_path: Path, old: str, new: str) -> None:
    assert old in CODE
    assert digest(tmp_path, one=CODE) != digest(tmp_path, one=CODE.replace(old, new))


def test_names_of_files_keep_the_digest(tmp_path: Path) -> None:
    other = "def other() -> None: ...\n"
    before = digest(tmp_path, one=CODE, two=other)
    assert digest(tmp_path, renamed=CODE, two=other) == before
    assert digest(tmp_path, two=CODE, one=other) == before
    assert digest(tmp_path, one=CODE) != before


def test_packages_and_modules_are_told_apart() -> None:
    relations, sampling = code_digest("xtcl.relations"), code_digest("xtcl.sampling")
    both = code_digest("xtcl.relations", "xtcl.sampling")
    assert len({relations, sampling, both, code_digest("xtcl.errors")}) == 4
    assert code_digest("xtcl.sampling", "xtcl.relations") == both
    with pytest.raises(ModuleNotFoundError, match=r"xtcl\.nothing"):
        code_digest("xtcl.nothing")


@pytest.fixture
def fresh_cache() -> Iterator[None]:
    code_digest.cache_clear()
    yield
    code_digest.cache_clear()


@pytest.mark.usefixtures("fresh_cache")
def test_without_sources_the_version_stands_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = tmp_path / "zipped.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("zipped_package/__init__.py", CODE)
    monkeypatch.syspath_prepend(str(archive))
    before = code_digest("zipped_package")
    code_digest.cache_clear()
    monkeypatch.setattr(xtcl, "__version__", "another")
    assert code_digest("zipped_package") != before
    assert "zipped_package" not in sys.modules


def test_code_of_a_user_and_of_bases_is_hashed(tmp_path: Path) -> None:
    def digests(source: str, folder: str) -> tuple[str | None, str | None]:
        module = user_module(tmp_path / folder, source)
        return user_code_digest(module.Own), user_code_digest(module.Child)

    first = digests(RELATION, "first")
    assert None not in first
    assert len(set(first)) == 2
    assert digests(RELATION.replace("# all are alike", "# the same"), "commented") == first
    assert digests(f"# one more line\n{RELATION}", "moved") == first
    changed = digests(RELATION.replace("0.5", "0.25"), "changed")
    assert changed[0] != first[0]
    assert changed[1] != first[1]


def test_of_two_classes_with_one_name_in_a_file_each_has_its_own_digest(tmp_path: Path) -> None:
    twin = "class Twin:\n    def value(self):\n        return {}\n"
    code = f"{twin.format(1)}first = Twin\n{twin.format(2)}"
    module = user_module(tmp_path, code, "twins")
    assert user_code_digest(module.first) != user_code_digest(module.Twin)


def test_only_code_of_a_user_counts() -> None:
    assert user_code_digest(Link) == user_code_digest(Relation) == user_code_digest(dict)


def test_a_part_of_xtcl_is_described_without_its_module(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = (Link, Relation, source_digest)
    before = [describe_value(part) for part in parts]
    for part in parts:
        monkeypatch.setattr(part, "__module__", "xtcl.elsewhere")
    assert [describe_value(part) for part in parts] == before
    assert len({str(described) for described in before}) == len(parts)


def test_a_part_of_a_user_may_move_to_another_file(tmp_path: Path) -> None:
    one, other = (user_module(tmp_path / name, RELATION, name) for name in ("one", "other"))
    changed = user_module(tmp_path / "third", RELATION.replace("0.5", "0.25"), "third")
    for parts in (
        [module.Own for module in (one, other, changed)],
        [module.Own.prepare for module in (one, other, changed)],
    ):
        first, moved, edited = map(describe_value, parts)
        assert first == moved
        assert first != edited
    assert describe_value(one.Own) != describe_value(one.Child)


def test_a_moved_function_that_reads_other_values_is_another_one(tmp_path: Path) -> None:
    code = "LIMIT = {}\n\n\ndef limited(nodes):\n    return nodes.clamp(max=LIMIT)\n"
    one = user_module(tmp_path / "one", code.format(1), "one")
    moved = user_module(tmp_path / "moved", code.format(1), "moved")
    other = user_module(tmp_path / "other", code.format(2), "other")
    assert describe_value(one.limited) == describe_value(moved.limited)
    assert describe_value(one.limited) != describe_value(other.limited)


def test_without_a_source_the_module_tells_parts_of_one_name_apart() -> None:
    typed = [{"__name__": name} for name in ("typed_in", "typed_elsewhere")]
    for names in typed:
        exec("class Typed:\n    pass\n", names)  # noqa: S102
    first, second = (describe_value(dict[str, Any](names)["Typed"]) for names in typed)
    assert first != second


def test_a_class_without_source_has_no_digest() -> None:
    names: dict[str, Any] = {"__name__": "typed_in"}
    exec("class Typed:\n    pass\n", names)  # noqa: S102
    assert user_code_digest(names["Typed"]) is None
    assert user_code_digest(Link, names["Typed"]) is None
