"""A batch of measurements: kept one by one, gone on with, never half there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from xtcl.errors import DataError
from xtcl.graph.graph import Graph
from xtcl.lab.experiments import experiment
from xtcl.lab.experiments.experiment import Context, Measurement, Plain, run_missing, spell_out
from xtcl.lab.experiments.provenance import provenance

CPU = torch.device("cpu")


class Counter:
    """Measures a number, and counts how often it was asked."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def measurement(self, number: int) -> Measurement:
        def measure(bench: Context) -> Plain:
            self.asked.append(number)
            if number < 0:
                raise DataError("No negative numbers here.")
            return {"square": number**2}

        return Measurement({"kind": "square", "number": number}, measure)


def run(counter: Counter, numbers: list[int], folder: Path) -> tuple[list[Plain], list[str]]:
    heard: list[str] = []
    measurements = [counter.measurement(number) for number in numbers]
    records = run_missing(measurements, folder, Context(CPU), heard.append)
    return [record.found for record in records], heard


def test_every_run_has_a_file_and_is_made_once(tmp_path: Path) -> None:
    counter = Counter()
    found, heard = run(counter, [2, 3], tmp_path / "runs")
    assert found == [{"square": 4}, {"square": 9}]
    assert [line.split(" in ")[0] for line in heard] == ["1 of 2: square-2", "2 of 2: square-3"]
    assert "to go" in heard[0]
    assert "to go" not in heard[1]
    stored = json.loads((tmp_path / "runs" / "square-3.json").read_text())
    assert stored["what"] == {"kind": "square", "number": 3}
    assert {name: stored[name] for name in ("versions", "hardware")} == provenance(CPU)
    found, heard = run(counter, [3, 4, 2], tmp_path / "runs")
    assert found == [{"square": 9}, {"square": 16}, {"square": 4}]
    assert counter.asked == [2, 3, 4]
    assert heard[0] == "2 of 3 runs are there already."


@pytest.mark.parametrize("damage", ["", "{", '{"what": 1}', '{"surprise": 1}'])
def test_a_damaged_file_is_made_anew(tmp_path: Path, damage: str) -> None:
    counter = Counter()
    run(counter, [5], tmp_path)
    whole = (tmp_path / "square-5.json").read_text()
    (tmp_path / "square-5.json").write_text(damage)
    assert run(counter, [5], tmp_path)[0] == [{"square": 25}]
    assert counter.asked == [5, 5]
    again = json.loads((tmp_path / "square-5.json").read_text())
    assert again["found"] == json.loads(whole)["found"]


def test_a_file_that_measured_something_else_is_not_taken_for_this(tmp_path: Path) -> None:
    counter = Counter()
    run(counter, [5], tmp_path)
    path = tmp_path / "square-5.json"
    path.write_text(path.read_text().replace('"number": 5', '"number": 6'))
    run(counter, [5], tmp_path)
    assert counter.asked == [5, 5]


def test_what_cannot_be_measured_is_told_of_and_left_out(tmp_path: Path) -> None:
    found, heard = run(Counter(), [-1, 2], tmp_path)
    assert found == [{"square": 4}]
    assert heard[0] == "square--1 was left out: No negative numbers here."
    assert [path.name for path in tmp_path.iterdir()] == ["square-2.json"]


def test_a_missing_data_set_is_looked_for_and_told_of_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sought: list[str] = []

    def nowhere(name: str, data: Path | None) -> Graph:
        sought.append(name)
        raise DataError(f"{name} was found nowhere.")

    monkeypatch.setattr(experiment, "load_dataset", nowhere)

    def on(name: str, seed: int) -> Measurement:
        return Measurement(
            {"dataset": name, "seed": seed}, lambda bench: {"nodes": bench.graph(name).num_nodes}
        )

    heard: list[str] = []
    wanted = [on(name, seed) for seed in range(3) for name in ("photo", "pubmed")]
    wanted.append(Counter().measurement(2))
    records = run_missing(wanted, tmp_path, Context(CPU), heard.append)
    assert [record.found for record in records] == [{"square": 4}]
    assert sought == ["photo", "pubmed"]
    assert heard[:2] == [
        f"All runs on {name} are left out: {name} was found nowhere." for name in sought
    ]
    assert len(heard) == 3


def test_an_interrupted_batch_goes_on(tmp_path: Path) -> None:
    counter = Counter()

    def interrupt(bench: Context) -> Plain:
        raise KeyboardInterrupt

    stopped = Measurement({"kind": "square", "number": 3}, interrupt)
    with pytest.raises(KeyboardInterrupt):
        run_missing([counter.measurement(2), stopped], tmp_path, Context(CPU), lambda line: None)
    assert [path.name for path in tmp_path.iterdir()] == ["square-2.json"]
    assert run(counter, [2, 3], tmp_path)[0] == [{"square": 4}, {"square": 9}]
    assert counter.asked == [2, 3]


@pytest.mark.parametrize(
    ("seconds", "words"), [(3.4, "3 s"), (89.0, "89 s"), (600.0, "10 min"), (7200.0, "2.0 h")]
)
def test_times_in_words(seconds: float, words: str) -> None:
    assert spell_out(seconds) == words
