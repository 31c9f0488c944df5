"""Work inside a stage outlives an interruption, and nothing of the result changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from strategies import make_view
from torch import Tensor

from xtcl.config import SamplerConfig
from xtcl.distributed import World, _current_world
from xtcl.relations.store.relation_store import RelationStore
from xtcl.sampling import candidates, partial, patterns, positives, xgsampler
from xtcl.sampling.candidates import TopB
from xtcl.sampling.folds import label_folds, link_folds
from xtcl.sampling.partial import PartialPositives, of_one_process
from xtcl.sampling.xgsampler import XGSampler
from xtcl.training.checkpoint import Checkpoints

COUNT, HEIGHT = 40, 6
BLOCKS = [6, 6, 6, 6, 6, 6, 4]


class Files(dict[str, dict[str, Tensor]]):
    """What is saved, without a disk."""

    def load(self, name: str) -> dict[str, Tensor] | None:
        return self.get(name)

    def save(self, name: str, tensors: Mapping[str, Tensor]) -> None:
        self[name] = {key: tensor.clone() for key, tensor in tensors.items()}


def interrupt_at(step: int) -> Callable[[int], None]:
    """Raises KeyboardInterrupt at the `step`-th call."""
    calls: list[int] = []

    def progress(done: int) -> None:
        calls.append(done)
        if len(calls) == step:
            raise KeyboardInterrupt

    return progress


def folds_of(task: str) -> Any:
    view, rng = make_view(COUNT, 0), np.random.default_rng(0)
    folds = label_folds(view, None, 4, rng) if task == "nodes" else link_folds(view, 4, rng)
    return view, folds


def new_sampler(**options: Any) -> XGSampler:
    return XGSampler(
        settings=SamplerConfig((0.6, 0.8), cap=options.pop("cap", None)),
        block_rows=HEIGHT,
        **options,
    )


def bytes_of(sampler: XGSampler) -> tuple[Any, ...]:
    assert sampler.groups_ is not None
    tables = sampler.counts_, sampler.groups_.table
    arrays = [array.tobytes() for table in tables for array in (table.codes, table.counts)]
    return (sampler.relation_weights_, *arrays)


@pytest.mark.parametrize("task", ["nodes", "links"])
@pytest.mark.parametrize("step", [1, 3, 4])
def test_finished_folds_are_not_counted_again(
    step: int, task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    undisturbed = bytes_of(new_sampler().fit_folds(*folds_of(task)))
    files = Checkpoints(tmp_path)
    view, folds = folds_of(task)
    with pytest.raises(KeyboardInterrupt):
        new_sampler().fit_folds(view, folds, interrupt_at(step), checkpoints=files)
    original, counted = patterns.count_groups, []

    def watched(fold: Any, *rest: Any, **options: Any) -> Any:
        counted.append(fold.queries.tolist())
        return original(fold, *rest, **options)

    monkeypatch.setattr(xgsampler, "count_groups", watched)
    done: list[int] = []
    view, folds = folds_of(task)
    resumed = new_sampler().fit_folds(view, folds, done.append, checkpoints=files)
    assert bytes_of(resumed) == undisturbed
    assert counted == [fold.queries.tolist() for fold in folds[step:]]
    assert done == [1] * 4


@pytest.fixture(params=[None, 5], ids=["exact", "top-k"])
def fitted(request: pytest.FixtureRequest) -> XGSampler:
    return new_sampler(cap=request.param).fit_folds(*folds_of("nodes"))


class Watched:
    """The nodes whose candidates are scored."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.blocks: list[int] = []
        original = candidates.best_candidates

        def best(found: Any, queries: Tensor, *rest: Any) -> Any:
            self.blocks.append(len(queries))
            return original(found, queries, *rest)

        monkeypatch.setattr(positives, "best_candidates", best)


@pytest.mark.parametrize("seconds", [0.0, 30.0])
@pytest.mark.parametrize("step", [1, 4, 7])
def test_found_positives_are_not_found_again(
    step: int, seconds: float, fitted: XGSampler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    undisturbed = fitted.positives(3)
    monkeypatch.setattr(partial, "SAVE_SECONDS", seconds)
    files = Checkpoints(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        fitted.positives(3, progress=interrupt_at(step), checkpoints=files)
    assert len(list(tmp_path.iterdir())) == (1 if seconds else step)
    watched = Watched(monkeypatch)
    done: list[int] = []
    resumed = fitted.positives(3, progress=done.append, checkpoints=files)
    assert resumed.nodes.tobytes() == undisturbed.nodes.tobytes()
    assert resumed.scores.tobytes() == undisturbed.scores.tobytes()
    assert sum(done) == COUNT
    # Of a pass that was done already the last node is found again.
    assert watched.blocks == (BLOCKS[step:] or [1])


def test_interrupted_again_and_again(fitted: XGSampler) -> None:
    undisturbed = fitted.positives(3)
    files = Files()
    # The first call of progress says what was found before. So each time two blocks are found.
    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            fitted.positives(3, progress=interrupt_at(3), checkpoints=files)
    found = fitted.positives(3, progress=interrupt_at(3), checkpoints=files)
    assert found.nodes.tobytes() == undisturbed.nodes.tobytes()
    assert found.scores.tobytes() == undisturbed.scores.tobytes()


def test_a_relation_that_fails_costs_no_more_than_its_block(
    fitted: XGSampler, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, undisturbed = Files(), fitted.positives(3)
    original, calls = candidates.best_candidates, []

    def failing(*given: Any) -> Any:
        calls.append(1)
        if len(calls) == 3:
            raise RuntimeError("out of luck")
        return original(*given)

    monkeypatch.setattr(positives, "best_candidates", failing)
    with pytest.raises(RuntimeError, match="out of luck"):
        fitted.positives(3, checkpoints=files)
    np.testing.assert_array_equal(fitted.positives(3, checkpoints=files).nodes, undisturbed.nodes)
    assert len(calls) == 2 + 1 + 5


def test_a_full_disk_does_not_hide_the_interrupt(
    fitted: XGSampler, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(name: str, tensors: Mapping[str, Tensor]) -> None:
        raise OSError("No space left on device")

    files = Files()
    monkeypatch.setattr(files, "save", full)
    with pytest.raises(KeyboardInterrupt):
        fitted.positives(3, progress=interrupt_at(2), checkpoints=files)


def test_what_is_read_is_believed(fitted: XGSampler) -> None:
    """The control of the tests above, and the number of positives must be the same."""
    files = Files()
    with pytest.raises(KeyboardInterrupt):
        fitted.positives(3, progress=interrupt_at(2), checkpoints=files)
    files["positives-from-0"]["nodes"][0, 0] = 39
    assert fitted.positives(3, checkpoints=files).nodes[0, 0] == 39
    wider = fitted.positives(4).nodes
    np.testing.assert_array_equal(fitted.positives(4, checkpoints=files).nodes, wider)


def test_several_ranks_keep_nothing_inside_a_stage() -> None:
    files = Files()
    with _current_world(World(0, 2)):
        assert of_one_process(files) is None
    assert of_one_process(files) is files


@pytest.mark.parametrize("cap", [None, 5])
def test_the_rest_of_a_pass_is_not_stored(cap: int | None, tmp_path: Path) -> None:
    """It would be a file of its own, which no fit asks for; what is stored is read."""
    sampler = new_sampler(cap=cap).fit_folds(*folds_of("nodes"))
    undisturbed = sampler.positives(3)
    sampler.store = RelationStore(tmp_path / "store")
    sampler._rows = None
    files = Files()
    with pytest.raises(KeyboardInterrupt):
        sampler.positives(3, progress=interrupt_at(3), checkpoints=files)
    assert not list((tmp_path / "store").glob("*.parquet"))
    np.testing.assert_array_equal(sampler.positives(3, checkpoints=files).nodes, undisturbed.nodes)
    assert len(list((tmp_path / "store").glob("*.parquet"))) == 1  # the positives


def test_blocks_in_files_of_any_size() -> None:
    table = torch.arange(30).view(10, 3)
    files = Files()
    for until in (4, 7, 9):
        found = PartialPositives(files, 10, 3)
        for node in range(found.num_found, until):
            found.add(TopB(table[node, None], table[node, None].float()))
        with pytest.raises(KeyboardInterrupt), found.saved_on_error():
            raise KeyboardInterrupt
    assert sorted(files) == ["positives-from-0", "positives-from-4", "positives-from-7"]
    again = PartialPositives(files, 10, 3)
    assert again.num_found == 9
    torch.testing.assert_close(again.joined().nodes, table[:9])
    torch.testing.assert_close(again.joined().scores, table[:9].float())
    del files["positives-from-4"]
    assert PartialPositives(files, 10, 3).num_found == 4
