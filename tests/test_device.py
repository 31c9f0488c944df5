"""Amounts of memory as users write them, and the memory of a GPU."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from small_runs import shrink_recipes, small_graph, small_model, small_split
from typer.testing import CliRunner

from xtcl import block_model, device
from xtcl.cli.main import app
from xtcl.device import DRIVER_BYTES, limit_gpu_memory, parse_memory, release_cached, trim_heap
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


# The memory of a GPU: a limit for torch, and room for CUDA graph capture.

GPU = torch.device("cuda")


@dataclass
class PretendedGPU:
    """A GPU as torch describes it, and the calls it gets."""

    free: int
    calls: list[object]
    total: int = 16 * DRIVER_BYTES
    reserved: int = 11
    allocated: int = 7
    share: float = 1.0

    def stand_in(self, patch: pytest.MonkeyPatch) -> None:
        properties = SimpleNamespace(total_memory=self.total)
        patch.setattr(torch.cuda, "mem_get_info", lambda: (self.free, self.total))
        patch.setattr(torch.cuda, "get_device_properties", lambda device: properties)
        patch.setattr(torch.cuda, "memory_reserved", lambda: self.reserved)
        patch.setattr(torch.cuda, "memory_allocated", lambda: self.allocated)
        patch.setattr(torch.cuda, "synchronize", lambda: self.calls.append("wait"))
        patch.setattr(torch.cuda, "empty_cache", lambda: self.calls.append("give back"))
        patch.setattr(torch.cuda, "set_per_process_memory_fraction", self.limit)
        patch.setattr(
            torch.cuda, "get_per_process_memory_fraction", lambda device: self.share, raising=False
        )

    def limit(self, share: float, device: object) -> None:
        self.share = share
        self.calls.append(share)


@pytest.mark.parametrize(("free", "given_back"), [(9, False), (8, False), (7, True)])
def test_kept_memory_is_given_back_where_it_is_more_than_half_of_what_is_free(
    free: int, given_back: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu = PretendedGPU(free, [])
    gpu.stand_in(monkeypatch)
    release_cached()
    assert gpu.calls == (["wait", "give back"] if given_back else [])


def test_free_is_no_more_than_the_budget_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = PretendedGPU(free=1000, calls=[])
    gpu.stand_in(monkeypatch)
    with limit_gpu_memory(DRIVER_BYTES + 19, GPU):
        gpu.calls.clear()
        release_cached()
        assert gpu.calls == []
    with limit_gpu_memory(DRIVER_BYTES + 18, GPU):
        gpu.calls.clear()
        release_cached()
        assert gpu.calls == ["wait", "give back"]


def test_a_limit_ends_with_what_it_was_for(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = PretendedGPU(free=1000, calls=[])
    gpu.stand_in(monkeypatch)
    with pytest.raises(KeyError), limit_gpu_memory(5 * DRIVER_BYTES, GPU):
        raise KeyError
    assert gpu.calls == ["give back", 4 / 16, 1.0]
    gpu.calls.clear()
    with limit_gpu_memory(100 * DRIVER_BYTES, GPU):
        pass
    assert gpu.calls == ["give back", 1.0, 1.0]
    gpu.calls.clear()
    gpu.share = 3 / 16
    with limit_gpu_memory(9 * DRIVER_BYTES, GPU), limit_gpu_memory(2 * DRIVER_BYTES, GPU):
        pass
    assert gpu.calls == ["give back", 3 / 16, "give back", 1 / 16, 3 / 16, 3 / 16]


@pytest.mark.parametrize(("budget", "device"), [(None, "cuda"), (5 * DRIVER_BYTES, "cpu")])
def test_nothing_is_limited_without_a_budget_or_a_gpu(
    budget: int | None, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu = PretendedGPU(free=1000, calls=[])
    gpu.stand_in(monkeypatch)
    with limit_gpu_memory(budget, torch.device(device)):
        pass
    assert gpu.calls == []


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_torch_keeps_to_the_budget() -> None:
    block = 64 * 2**20
    before = torch.cuda.memory_allocated()
    with limit_gpu_memory(DRIVER_BYTES + before + 11 * block, GPU):
        for number in (5, 6, 7, 8):  # larger each time: what was freed is of no use
            torch.empty(number * block, dtype=torch.uint8, device=GPU)
            assert torch.cuda.memory_reserved() <= before + 11 * block
        with pytest.raises(torch.OutOfMemoryError):
            torch.empty(12 * block, dtype=torch.uint8, device=GPU)
    assert torch.empty(12 * block, dtype=torch.uint8, device=GPU).is_cuda
