"""Files of records under results/ hold every run that was ever kept, and read back as written."""

from __future__ import annotations

import json
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from xtcl.lab.experiments.records import RecordFile, encode_records

RESULTS = Path(__file__).parents[2] / "results"
DATASETS = ("cora", "citeseer", "pubmed", "computers", "photo")
DIGESTS: dict[str, str] = json.loads(
    (Path(__file__).parent / "record_digests.json").read_text(encoding="utf-8")
)
"""Digests of the 2,546 records that had a file each, by the file that they are in now."""


LINKED = "performance/linked-growth/linked_{}.jsonl"
LINKED_FILES = [LINKED.format(name) for name in ("accuracy", "accuracy_h200", "sampling")]


def digest(key: str, record: Any) -> str:
    return sha256(json.dumps([key, record], sort_keys=True).encode()).hexdigest()[:16]


@pytest.mark.parametrize("name", DIGESTS)
def test_no_record_is_lost_or_changed(name: str) -> None:
    records = RecordFile(RESULTS / name).read()
    assert set(DIGESTS[name].split()) <= {digest(*item) for item in records.items()}


@pytest.mark.parametrize("name", [*DIGESTS, *LINKED_FILES])
def test_a_file_is_sorted_and_written_as_fold_writes_it(name: str) -> None:
    path = RESULTS / name
    lines = path.read_text(encoding="utf-8").splitlines()
    assert lines == encode_records(RecordFile(path).read())


TEN_SPLITS = ["gat", "gcn", "logistic", "propagation", "xtcl-gat", "xtcl-gcn"]
"""Systems that have splits 5 to 9 of Cora and CiteSeer in both tables; others have five at most."""


@pytest.mark.parametrize(
    ("task", "methods"),
    [("nodes", [*TEN_SPLITS, "sscl", "sscl-all"]), ("links", TEN_SPLITS)],
)
def test_splits_that_only_the_runs_had_are_there(task: str, methods: list[str]) -> None:
    found = RecordFile(RESULTS / "reproduction" / f"table-{task}" / f"table-{task}.jsonl").read()
    runs = [(what["dataset"], what["method"], what["seed"]) for what in whats(found)]
    later = [run for run in runs if run[2] >= 5]
    assert sorted(later) == sorted(product(("cora", "citeseer"), methods, range(5, 10)))


@pytest.mark.parametrize("task", ["nodes", "links"])
@pytest.mark.parametrize("method", ["xtcl-paper", "xtcl-paper-gat"])
def test_the_method_as_printed_has_five_splits(task: str, method: str) -> None:
    found = RecordFile(RESULTS / "reproduction" / f"table-{task}" / f"table-{task}.jsonl").read()
    runs = [(what["dataset"], what["seed"]) for what in whats(found) if what["method"] == method]
    assert sorted(runs) == sorted(product(DATASETS, range(5)))


def test_earlier_runs_are_of_the_systems_that_changed() -> None:
    found = RecordFile(RESULTS / "reproduction" / "table-nodes" / "earlier.jsonl").read()
    runs = [(what["dataset"], what["method"], what["seed"]) for what in whats(found)]
    assert sorted(runs) == sorted(product(DATASETS, ("cocos", "meta-pn"), range(5)))


def test_the_page_of_linked_modes_is_that_of_its_runs() -> None:
    path = RESULTS / LINKED.format("accuracy_h200")
    modes = ("top-k", "linked", "hop1", "linked-relations")
    records = RecordFile(path).read()
    assert set(records) == {
        f"{d}-{mode}-{seed}" for d, mode, seed in product(DATASETS, modes, range(5))
    }
    rows = path.with_suffix(".md").read_text(encoding="utf-8").splitlines()[2:]
    for mode, row in zip(modes, rows, strict=True):
        cells = [
            [records[f"{dataset}-{mode}-{seed}"]["accuracy"] for seed in range(5)]
            for dataset in DATASETS
        ]
        means = (f"{np.mean(runs):.2f} ± {np.std(runs, ddof=1) / 5**0.5:.2f}" for runs in cells)
        assert row == f"| {mode} | {' | '.join(means)} |"


def whats(records: dict[str, Any]) -> list[dict[str, Any]]:
    return [record["what"] for record in records.values()]
