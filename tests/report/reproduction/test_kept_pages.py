"""The pages under results/reproduction are what is drawn from the runs beside them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from xtcl.lab.experiments import EXPERIMENTS, draw_experiment
from xtcl.lab.experiments.experiment import Selection, read_records
from xtcl.lab.experiments.records import RecordFile

RESULTS = Path(__file__).parents[3] / "results" / "reproduction"


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_kept_page_is_drawn_from_its_runs_and_says_what_made_them(
    name: str, tmp_path: Path
) -> None:
    experiment = EXPERIMENTS[name]()
    kept = RESULTS / name
    records = list(
        read_records(experiment.runs(Selection()), RecordFile(kept / f"{name}.jsonl")).values()
    )
    page = draw_experiment(experiment, records, tmp_path).read_text(encoding="utf-8")
    assert page == (kept / f"{name}.md").read_text(encoding="utf-8")
    made = re.findall(r"^- (\d+) runs?: .*; xtcl .* \(code \w{16}\), torch ", page, flags=re.M)
    assert sum(map(int, made)) == len(records)
