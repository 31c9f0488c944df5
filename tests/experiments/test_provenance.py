"""Versions and hardware of a measurement."""

from __future__ import annotations

import importlib.metadata
import json
import platform
from pathlib import Path

import pytest
import torch
from test_layers import RANK

import xtcl
from xtcl.lab.experiments import provenance as module
from xtcl.lab.experiments.provenance import provenance

CPU = torch.device("cpu")


def test_versions_are_those_installed() -> None:
    versions = provenance(CPU)["versions"]
    assert versions.pop("python") == platform.python_version()
    assert versions.pop("xtcl") == xtcl.__version__
    assert versions.pop("code") == module.CODE
    assert list(versions) == ["numpy", "scipy", "torch", "torch_geometric"]
    for name, version in versions.items():
        # torch says how it was built, too: 2.13.0+cpu
        assert str(version).split("+")[0] == importlib.metadata.version(name).split("+")[0]


def test_hardware_counts_the_threads_in_use() -> None:
    before = torch.get_num_threads()
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            hardware = provenance(CPU)["hardware"]
            assert hardware["threads"] == threads
    finally:
        torch.set_num_threads(before)
    assert list(hardware) == ["cpu", "cpus", "threads", "gpu"]
    assert hardware["cpu"]
    assert int(hardware["cpus"]) >= 1


def test_the_gpu_is_named_where_the_work_runs_on_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: f"GPU of {device}")
    assert provenance(CPU)["hardware"]["gpu"] == "none"
    assert provenance(torch.device("cuda"))["hardware"]["gpu"] == "GPU of cuda"


def test_the_processor_is_read_from_linux_or_else_its_architecture(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    described = tmp_path / "cpuinfo"
    monkeypatch.setattr(module, "Path", lambda path: described)
    assert provenance(CPU)["hardware"]["cpu"] == platform.machine()
    described.write_text("processor\t: 0\nmodel name\t: Acme 9: fast\n\nmodel name\t: Other\n")
    assert provenance(CPU)["hardware"]["cpu"] == "Acme 9: fast"


def test_plain_values_without_paths() -> None:
    text = json.dumps(provenance(CPU))
    assert json.loads(text) == provenance(CPU)
    assert str(Path.home()) not in text


def write(home: Path, **files: str) -> str:
    """The digest of a folder with one file in each package."""
    for package, text in files.items():
        (home / package).mkdir(exist_ok=True)
        (home / package / "one.py").write_text(text)
    return module.figures_digest(home)


def test_the_digest_of_the_code_sees_code_and_nothing_else(tmp_path: Path) -> None:
    first = write(tmp_path, tasks='"""Doc."""\n\ndef f(x):\n    """Doc."""\n    return x + 1\n')
    assert write(tmp_path, tasks="def f(x):  # why\n    return (x + 1)\n", cli="print()") == first
    assert write(tmp_path, tasks="def f(x):\n    return x + 2\n") != first


def test_no_code_that_an_experiment_may_use_is_left_out_of_the_digest(tmp_path: Path) -> None:
    before = {name for name, rank in RANK.items() if rank < RANK["report"]}
    for name in before | {"estimator", "baselines", "model_selection", "lab"}:
        assert write(tmp_path, **{name: "x = 1\n"}) != write(tmp_path, **{name: "x = 2\n"})


def test_the_scripts_have_a_digest_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "lab").mkdir()
    first = write(tmp_path, tasks="x = 1\n")
    assert write(tmp_path, **{"lab/scripts": "x = 1\n"}) == first
    assert write(tmp_path, **{"lab/methods": "x = 1\n"}) != first


def test_code_edited_while_a_batch_runs_is_not_what_it_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = provenance(CPU)
    write(tmp_path, tasks="edited = True\n")
    monkeypatch.setattr(xtcl, "__file__", str(tmp_path / "__init__.py"))
    assert provenance(CPU) == before
