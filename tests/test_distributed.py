"""Processes that share a fit find what one process finds, to the bit."""

from __future__ import annotations

import importlib
from pathlib import Path

import numpy as np
import pytest
import ranks_process
import shared_step_process
import torch
from hypothesis import given
from hypothesis import strategies as st
from shared_step_process import EXACT, trained
from small_ranks import run_ranks

from xtcl.distributed import World, distributed, local_work, world

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def one_process(tmp_path_factory: pytest.TempPathFactory) -> dict[str, np.ndarray]:
    return dict(ranks_process.all_found(tmp_path_factory.mktemp("alone")))


@pytest.mark.parametrize("number", [2, 3])
def test_any_number_of_ranks_finds_the_same(
    number: int, one_process: dict[str, np.ndarray], tmp_path: Path
) -> None:
    run_ranks(ranks_process.__file__, number, tmp_path)
    for rank in range(number):
        results = dict(np.load(tmp_path / f"rank-{rank}.npz"))
        for name, expected in one_process.items():
            assert results[name].dtype == expected.dtype
            assert np.array_equal(results[name], expected), name
        again = {name for name in results if name.startswith("again ")}
        assert len(again) == 2 * 4 * len(ranks_process.AGAIN)
        for name in again:
            _, _, first = name.split(" ", 2)
            assert np.array_equal(results[name], one_process[first]), name


@given(st.lists(st.integers(0, 20), min_size=1, max_size=6), st.integers(1, 12))
def test_shares_are_even_and_leave_nothing_out(lengths: list[int], number: int) -> None:
    parts = [World(rank, number).shares(lengths) for rank in range(number)]
    for place, length in enumerate(lengths):
        rows = torch.arange(length)
        assert torch.equal(torch.cat([rows[part[place]] for part in parts]), rows)
    sizes = [sum(part.stop - part.start for part in own) for own in parts]
    assert max(sizes) - min(sizes) <= 1


def test_a_process_alone_keeps_everything() -> None:
    rows = np.arange(6).reshape(3, 2)
    with distributed() as group:
        assert group.is_main
        assert group.gather(rows) is rows
        assert group.broadcast_tensors(None) is None
        with local_work():
            assert world().world_size == 1


def test_the_former_names_work_and_warn() -> None:
    with pytest.warns(DeprecationWarning, match=r"xtcl\.distributed\.distributed"):
        together = importlib.import_module("xtcl.ranks").together
    with together() as group, pytest.warns(DeprecationWarning, match="is_main"):
        assert group.first


# Ranks that share the anchors of a step learn what one process learns.


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
