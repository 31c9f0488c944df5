"""`torchrun -m xtcl fit`: one run directory, and what happens when a rank ends early."""

from __future__ import annotations

import json
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from small_runs import narrow, python, small_graph
from typer.testing import CliRunner

from xtcl.cli.main import app
from xtcl.estimator import XTCL
from xtcl.runs.config_file import write_tuned
from xtcl.tasks.link_prediction import LinkPrediction
from xtcl.tasks.node_classification import NodeClassification
from xtcl.tasks.task import Task

pytestmark = pytest.mark.slow


# A rank is struck in the middle of its second training; the others have to notice.
STRUCK = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from contextlib import contextmanager
from xtcl.cli.console import Bars
from xtcl.cli.main import main

trainings = 0

@contextmanager
def stage(self, name, steps):
    global trainings
    trainings += name == "training"
    done = 0
    def advance(more):
        nonlocal done
        done += more
        if os.environ["RANK"] == {rank!r} and trainings == 2 and done == {epoch}:
            os.kill(os.getpid(), signal.{signal})
    yield advance

Bars.stage = stage
sys.argv = ["xtcl", *sys.argv[1:]]
main()
"""


def small_fit(task: Task, epochs: int, folder: Path, device: str = "cpu") -> list[str]:
    """The command that fits a small graph with narrow encoders."""
    small_graph(160).save(folder / "graph.npz")
    described = {"task": task.name, "encoder": "gcn", "seed": 1}
    write_tuned(folder / "small.toml", described, narrow(task.recipe("gcn"), epochs))
    settings = ["--config", str(folder / "small.toml"), "--task", task.name, "--device", device]
    return ["fit", str(folder / "graph.npz"), *settings, "--json"]


def torchrun(number: int, *program: str) -> subprocess.CompletedProcess[str]:
    options = ["--standalone", f"--nproc-per-node={number}"]
    return python("-m", "torch.distributed.run", *options, *program, OMP_NUM_THREADS="1")


def agree_with_one_process(many: subprocess.CompletedProcess[str], *arguments: str) -> None:
    """Weights and positives to the byte, embeddings to rounding."""
    assert many.returncode == 0, many.stderr
    found = Path(json.loads(many.stdout)["out"])
    expected = found.with_name("alone")
    CliRunner().invoke(app, [*arguments, "--out", str(expected)], catch_exceptions=False)
    names = ("relation_weights.json", "relation_weights.png", "split.json", "config.toml")
    for name in names:
        assert (found / name).read_bytes() == (expected / name).read_bytes(), name
    models = [XTCL.load(folder) for folder in (found, expected)]
    assert np.array_equal(models[0].positives_, models[1].positives_)
    assert np.allclose(models[0].embedding_, models[1].embedding_, atol=1e-3)
    files = [sorted(str(path.relative_to(f)) for path in f.rglob("*")) for f in (found, expected)]
    assert files[0] == files[1]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("options", [(), ("--cap", "8")])
def test_two_machines_that_talk_through_nccl(tmp_path: Path, options: tuple[str, ...]) -> None:
    """Two agents of torchrun; by their names NCCL takes the one GPU for one of each machine."""
    arguments = [*small_fit(NodeClassification(), 15, tmp_path, "cuda"), *options]
    where = [
        "--master-addr",
        "127.0.0.1",
        "--master-port",
        str(29517 + len(options)),
        "--nnodes",
        "2",
    ]
    program = ["-m", "xtcl", *arguments, "--out", str(tmp_path / "many")]

    def agent(number: int) -> subprocess.CompletedProcess[str]:
        launch = ["-m", "torch.distributed.run", *where, "--node-rank", str(number), *program]
        named = {"NCCL_HOSTID": f"machine {number}", "NCCL_SOCKET_IFNAME": "lo"}
        return python(*launch, NCCL_DEBUG="VERSION", **named)

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(agent, (0, 1))
    assert second.returncode == 0, second.stderr
    assert "NCCL version" in first.stdout
    first.stdout = first.stdout[first.stdout.index("{") :]
    agree_with_one_process(first, *arguments)


def test_links_of_three_ranks(tmp_path: Path) -> None:
    arguments = [*small_fit(LinkPrediction(), 15, tmp_path), "--cap", "8"]
    many = torchrun(3, "-m", "xtcl", *arguments, "--out", str(tmp_path / "many"))
    agree_with_one_process(many, *arguments)
    assert many.stderr.count("left out") == 2  # said once, not by every rank


def test_a_rank_that_ends_early_ends_the_run_and_it_can_go_on(tmp_path: Path) -> None:
    arguments = small_fit(NodeClassification(), 25, tmp_path)
    whole = torchrun(2, "-m", "xtcl", *arguments, "--out", str(tmp_path / "whole"))
    agree_with_one_process(whole, *arguments)
    again = [*arguments, "--out", str(tmp_path / "run"), "--resume"]
    for rank, signal, epoch in (("1", "SIGKILL", 13), ("0", "SIGINT", 23)):
        program = tmp_path / f"struck-{rank}.py"
        program.write_text(STRUCK.format(rank=rank, signal=signal, epoch=epoch))
        broken = torchrun(2, str(program), *again)
        assert broken.returncode != 0
        assert "with --resume" in broken.stderr
        assert broken.stdout == ""
        assert not (tmp_path / "run" / "metrics.json").exists()
    resumed = torchrun(2, "-m", "xtcl", *again)
    assert resumed.returncode == 0, resumed.stderr
    for name in ("embeddings.parquet", "events.jsonl", "model/head.safetensors"):
        found, expected = ((tmp_path / run / name).read_bytes() for run in ("run", "whole"))
        assert found == expected, name
