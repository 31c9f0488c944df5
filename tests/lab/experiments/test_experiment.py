"""A batch of measurements: kept one by one, gone on with, never half there."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from xtcl.errors import DataError
from xtcl.graph.graph import Graph
from xtcl.lab.experiments import EXPERIMENTS, draw_experiment, experiment
from xtcl.lab.experiments.experiment import (
    Context,
    Plain,
    Run,
    Selection,
    read_records,
    run_missing,
    spell_out,
)
from xtcl.lab.experiments.provenance import provenance
from xtcl.lab.experiments.records import RecordFile

CPU = torch.device("cpu")


class Counter:
    """Measures a number, and counts how often it was asked."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def measurement(self, number: int) -> Run:
        def measure(bench: Context) -> Plain:
            self.asked.append(number)
            if number < 0:
                raise DataError("No negative numbers here.")
            return {"square": number**2}

        return Run({"kind": "square", "number": number}, measure)


def run(counter: Counter, numbers: list[int], path: Path) -> tuple[list[Plain], list[str]]:
    heard: list[str] = []
    measurements = [counter.measurement(number) for number in numbers]
    records = run_missing(measurements, RecordFile(path), Context(CPU), heard.append)
    return [record.found for record in records], heard


def test_every_run_has_a_record_and_is_made_once(tmp_path: Path) -> None:
    counter = Counter()
    found, heard = run(counter, [2, 3], tmp_path / "squares.jsonl")
    assert found == [{"square": 4}, {"square": 9}]
    assert [line.split(" in ")[0] for line in heard] == ["1 of 2: square-2", "2 of 2: square-3"]
    assert "to go" in heard[0]
    assert "to go" not in heard[1]
    stored = RecordFile(tmp_path / "squares.jsonl").read()["square-3"]
    assert stored["what"] == {"kind": "square", "number": 3}
    assert {name: stored[name] for name in ("versions", "hardware")} == provenance(CPU)
    found, heard = run(counter, [3, 4, 2], tmp_path / "squares.jsonl")
    assert found == [{"square": 9}, {"square": 16}, {"square": 4}]
    assert counter.asked == [2, 3, 4]
    assert heard[0] == "2 of 3 runs are there already."


@pytest.mark.parametrize("damage", ["", "{", '{"what": 1}', '{"surprise": 1}', "[]", '"key"'])
def test_a_damaged_line_is_made_anew(tmp_path: Path, damage: str) -> None:
    counter = Counter()
    path = tmp_path / "squares.jsonl"
    run(counter, [5], path)
    *heads, whole = path.read_text().splitlines()
    path.write_text("\n".join([*heads, damage]) + "\n")
    assert run(counter, [5], path)[0] == [{"square": 25}]
    assert counter.asked == [5, 5]
    again = RecordFile(path).read()["square-5"]
    assert again["found"] == json.loads(whole)["record"]["found"]


@pytest.mark.parametrize("record", [None, {}, {"what": 1}, {"surprise": 1}])
def test_a_damaged_record_is_made_anew(tmp_path: Path, record: object) -> None:
    counter = Counter()
    file = RecordFile(tmp_path / "squares.jsonl")
    file.append("square-5", record)
    file.fold()
    assert run(counter, [5], file.path)[0] == [{"square": 25}]
    assert counter.asked == [5]
    assert file.read()["square-5"]["found"] == {"square": 25}


def test_a_record_that_measured_something_else_is_not_taken_for_this(tmp_path: Path) -> None:
    counter = Counter()
    path = tmp_path / "squares.jsonl"
    run(counter, [5], path)
    path.write_text(path.read_text().replace('"number": 5', '"number": 6'))
    run(counter, [5], path)
    assert counter.asked == [5, 5]


def test_what_cannot_be_measured_is_told_of_and_left_out(tmp_path: Path) -> None:
    path = tmp_path / "squares.jsonl"
    found, heard = run(Counter(), [-1, 2], path)
    assert found == [{"square": 4}]
    assert heard[0] == "square--1 was left out: No negative numbers here."
    assert list(RecordFile(path).read()) == ["square-2"]


def test_a_missing_data_set_is_looked_for_and_told_of_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sought: list[str] = []

    def nowhere(name: str, data: Path | None) -> Graph:
        sought.append(name)
        raise DataError(f"{name} was found nowhere.")

    monkeypatch.setattr(experiment, "load_dataset", nowhere)

    def on(name: str, seed: int) -> Run:
        return Run(
            {"dataset": name, "seed": seed}, lambda bench: {"nodes": bench.graph(name).num_nodes}
        )

    heard: list[str] = []
    wanted = [on(name, seed) for seed in range(3) for name in ("photo", "pubmed")]
    wanted.append(Counter().measurement(2))
    records = run_missing(
        wanted, RecordFile(tmp_path / "squares.jsonl"), Context(CPU), heard.append
    )
    assert [record.found for record in records] == [{"square": 4}]
    assert sought == ["photo", "pubmed"]
    assert heard[:2] == [
        f"All runs on {name} are left out: {name} was found nowhere." for name in sought
    ]
    assert len(heard) == 3


def test_an_interrupted_batch_goes_on(tmp_path: Path) -> None:
    counter = Counter()
    path = tmp_path / "squares.jsonl"

    def interrupt(bench: Context) -> Plain:
        raise KeyboardInterrupt

    stopped = Run({"kind": "square", "number": 3}, interrupt)
    with pytest.raises(KeyboardInterrupt):
        run_missing(
            [counter.measurement(2), stopped], RecordFile(path), Context(CPU), lambda line: None
        )
    assert [path.name for path in tmp_path.iterdir()] == ["squares.jsonl"]
    assert list(RecordFile(path).read()) == ["square-2"]
    assert run(counter, [2, 3], path)[0] == [{"square": 4}, {"square": 9}]
    assert counter.asked == [2, 3]


KILLED = """
import os, signal, sys
from pathlib import Path
import torch
from xtcl.lab.experiments.experiment import Context, Run, run_missing
from xtcl.lab.experiments.records import RecordFile

def measure(number):
    def square(context):
        if number == 4:
            os.kill(os.getpid(), signal.SIGKILL)
        return {"square": number**2}
    return Run({"kind": "square", "number": number}, square)

path = Path(sys.argv[1])
runs = [measure(number) for number in (2, 3, 4, 5)]
run_missing(runs, RecordFile(path), Context(torch.device("cpu")), print)
"""


@pytest.mark.skipif(os.name != "posix", reason="there is no SIGKILL elsewhere")
def test_a_killed_batch_goes_on_from_its_last_run(tmp_path: Path) -> None:
    path = tmp_path / "squares.jsonl"
    killed = subprocess.run(  # noqa: S603 - our own interpreter and text
        [sys.executable, "-c", KILLED, str(path)], check=False, capture_output=True
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert [each.name for each in tmp_path.iterdir()] == ["squares.jsonl.partial"]
    counter = Counter()
    found, heard = run(counter, [2, 3, 4, 5], path)
    assert found == [{"square": n**2} for n in (2, 3, 4, 5)]
    assert counter.asked == [4, 5]
    assert heard[0] == "2 of 4 runs are there already."
    assert [each.name for each in tmp_path.iterdir()] == ["squares.jsonl"]


def test_a_batch_of_the_old_layout_goes_on(tmp_path: Path) -> None:
    counter = Counter()
    path, runs = tmp_path / "squares.jsonl", tmp_path / "runs"
    run(counter, [2, 3, 4], tmp_path / "made.jsonl")
    runs.mkdir()
    for key, record in RecordFile(tmp_path / "made.jsonl").read().items():
        (runs / f"{key}.json").write_text(json.dumps(record, indent=1))
    (runs / "square-4.json").write_text('{"what": ')
    file = RecordFile(path, old=runs)
    wanted = [counter.measurement(number) for number in (2, 3, 4)]
    records = run_missing(wanted, file, Context(CPU), lambda line: None)
    assert [record.found["square"] for record in records] == [4, 9, 16]
    assert counter.asked == [2, 3, 4, 4]
    assert list(RecordFile(path).read()) == ["square-2", "square-3", "square-4"]


@pytest.mark.parametrize(
    ("seconds", "words"), [(3.4, "3 s"), (89.0, "89 s"), (600.0, "10 min"), (7200.0, "2.0 h")]
)
def test_times_in_words(seconds: float, words: str) -> None:
    assert spell_out(seconds) == words


# The pages under results/reproduction are what is drawn from the runs beside them.

RESULTS = Path(__file__).parents[3] / "results" / "reproduction"


NOT_RUN_YET = {"any-graph", "hard-graphs"}


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_kept_page_is_drawn_from_its_runs_and_says_what_made_them(
    name: str, tmp_path: Path
) -> None:
    experiment = EXPERIMENTS[name]()
    kept = RESULTS / name
    if name in NOT_RUN_YET and not kept.exists():
        pytest.skip("no runs are kept yet")
    records = list(
        read_records(experiment.runs(Selection()), RecordFile(kept / f"{name}.jsonl")).values()
    )
    page = draw_experiment(experiment, records, tmp_path).read_text(encoding="utf-8")
    assert page == (kept / f"{name}.md").read_text(encoding="utf-8")
    made = re.findall(r"^- (\d+) runs?: .*; xtcl .* \(code \w{16}\), torch ", page, flags=re.M)
    assert sum(map(int, made)) == len(records)
