"""Amounts of memory as users write them."""

from __future__ import annotations

import contextlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_runs import shrink_recipes, small_graph, small_model, small_split
from typer.testing import CliRunner

from xtcl import block_model, device
from xtcl.cli.main import app
from xtcl.device import parse_memory, trim_heap
from xtcl.errors import UsageError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("4GB", 4 * 2**30),
        ("4 gb", 4 * 2**30),
        ("4GiB", 4 * 2**30),
        ("4G", 4 * 2**30),
        ("512M", 512 * 2**20),
        ("1.5 GiB", 3 * 2**29),
        ("0.5T", 2**39),
        ("64kB", 64 * 2**10),
        (" 2048 ", 2048),
        ("2048B", 2048),
        (2048, 2048),
        (np.int64(2048), 2048),
    ],
)
def test_amounts_of_memory(text: str | int, expected: int) -> None:
    assert parse_memory(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "GB",
        "-4GB",
        "4PB",
        "4 GB of it",
        "0",
        "0GB",
        "nan",
        "inf",
        "1e9",
        "4,5GB",
        "9" * 400,
        -1,
        0,
    ],
)
def test_what_is_no_amount_is_named(text: str | int) -> None:
    with pytest.raises(UsageError, match="is not a number of bytes; write something like 4GB"):
        parse_memory(text)


@given(st.text())
def test_rubbish_is_an_amount_or_a_usage_error(text: str) -> None:
    with contextlib.suppress(UsageError):
        assert parse_memory(text) >= 0


def test_a_fit_of_the_library_leaves_the_allocator_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused() -> None:
        raise AssertionError

    monkeypatch.setattr(device, "set_mmap_threshold", refused)
    monkeypatch.setattr(device, "trim_heap", refused)
    graph = small_graph()
    small_model(memory="4GB").fit(graph, small_split(graph, "nodes"))


def test_the_command_line_sets_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    called: set[str] = set()
    monkeypatch.setattr(device, "set_mmap_threshold", lambda: called.add("threshold"))
    monkeypatch.setattr(device, "trim_heap", lambda: called.add("trim"))
    shrink_recipes(monkeypatch, epochs=1)
    path = tmp_path / "graph.npz"
    block_model(80, num_attributes=8).save(path)
    words = ["fit", str(path), "--out", str(tmp_path / "run")]
    assert CliRunner().invoke(app, words).exit_code == 0
    assert called == {"trim"}
    assert CliRunner().invoke(app, [*words, "--memory", "4GB", "--resume"]).exit_code == 0
    assert called == {"trim", "threshold"}


def test_what_was_freed_can_be_given_back_at_any_time() -> None:
    kept = np.arange(10**6)
    trim_heap()
    assert kept.sum() == 499_999_500_000
