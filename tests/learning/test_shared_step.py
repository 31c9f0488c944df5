"""Ranks that share the anchors of a step learn what one process learns."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import shared_step_process
from shared_step_process import EXACT, trained
from small_ranks import run_ranks


def test_the_loss_keeps_its_definition(tmp_path: Path) -> None:
    number = 3
    run_ranks(shared_step_process.__file__, number, tmp_path)
    ranks = [dict(np.load(tmp_path / f"rank-{rank}.npz")) for rank in range(number)]
    for other in ranks[1:]:
        for name, array in ranks[0].items():
            assert np.array_equal(other[name], array), name
    for case in EXACT:
        alone = trained(case)
        assert ranks[0][f"{case} losses"] == pytest.approx(alone["losses"], rel=1e-5)
        assert ranks[0][f"{case} embedding"] == pytest.approx(alone["embedding"], abs=1e-4)
    for name in ("losses", "embedding"):
        assert np.array_equal(ranks[0][f"resumed {name}"], ranks[0][f"some neighbours {name}"])
