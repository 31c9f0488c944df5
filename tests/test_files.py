"""A file is either whole or not there."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from xtcl.files import atomic_path


def test_success_replaces_the_file_and_leaves_nothing_else(tmp_path: Path) -> None:
    target = tmp_path / "a.txt"
    target.write_text("old")
    target.chmod(0o640)
    with atomic_path(target) as temporary:
        assert temporary.parent == tmp_path
        temporary.write_text("new")
        assert target.read_text() == "old"
    assert target.read_text() == "new"
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_failure_keeps_the_old_file_and_leaves_nothing_else(
    tmp_path: Path, error: type[BaseException]
) -> None:
    target = tmp_path / "a.txt"
    target.write_text("old")

    def write_half() -> None:
        with atomic_path(target) as temporary:
            temporary.write_text("half")
            raise error

    with pytest.raises(error):
        write_half()
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_a_new_file_has_the_mode_of_a_plain_open(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("")
    with atomic_path(os.fspath(tmp_path / "ours")) as temporary:
        temporary.write_text("")
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_writer_may_itself_replace_the_temporary_file(tmp_path: Path) -> None:
    with atomic_path(tmp_path / "a") as temporary:
        temporary.unlink()
        temporary.write_text("again")
    assert (tmp_path / "a").read_text() == "again"
