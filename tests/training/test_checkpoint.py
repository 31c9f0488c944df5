"""Checkpoints: whole or not there, of this fit or thrown away."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from xtcl.errors import DataError
from xtcl.training.checkpoint import Checkpoints, NullCheckpoints, TrainingState

TENSORS = {
    "a": torch.arange(6.0).reshape(2, 3),
    "b.c": torch.tensor([1, -2, 3]),
    "scalar": torch.tensor(0.5, dtype=torch.float64),
    "empty": torch.zeros(0, 4),
    "flags": torch.tensor([True, False]),
    "half": torch.tensor([1.5], dtype=torch.bfloat16),
}


def assert_same(found: dict[str, Tensor] | None, expected: dict[str, Tensor]) -> None:
    assert found is not None
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert found[name].dtype == value.dtype
        assert torch.equal(found[name], value)


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path / "not" / "there" / "yet")
    assert checkpoints.load("things") is None
    checkpoints.save("things", TENSORS)
    assert_same(checkpoints.load("things"), TENSORS)
    checkpoints.save("things", {"other": torch.ones(2)})
    assert_same(checkpoints.load("things"), {"other": torch.ones(2)})
    assert [path.name for path in checkpoints.folder.iterdir()] == ["things.safetensors"]


def test_views_and_shared_memory_can_be_saved(tmp_path: Path) -> None:
    base = torch.arange(12.0).reshape(3, 4)
    tensors = {"turned": base.T, "part": base[1:, ::2], "same": base, "again": base}
    Checkpoints(tmp_path).save("x", tensors)
    assert_same(Checkpoints(tmp_path).load("x"), tensors)


def test_parts_of_the_work_do_not_meet(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    checkpoints.subfolder("one").save("x", {"v": torch.tensor(1)})
    checkpoints.subfolder("two").save("x", {"v": torch.tensor(2)})
    assert checkpoints.load("x") is None
    assert_same(checkpoints.subfolder("one").load("x"), {"v": torch.tensor(1)})
    assert_same(checkpoints.subfolder("two").load("x"), {"v": torch.tensor(2)})


def test_no_checkpoints_keeps_nothing() -> None:
    nothing = NullCheckpoints()
    nothing.save("x", TENSORS)
    nothing.subfolder("part").save("x", TENSORS)
    assert nothing.load("x") is None
    assert nothing.subfolder("part").load("x") is None


def test_any_flipped_bit_and_any_cut_counts_as_nothing(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save("x", TENSORS)
    path = tmp_path / "x.safetensors"
    content = path.read_bytes()
    for place in range(len(content)):
        altered = bytearray(content)
        altered[place] ^= 1 << (place % 8)
        path.write_bytes(altered)
        found = checkpoints.load("x")
        # Names are padded and JSON has spaces: what a flip leaves as it was may be loaded.
        if found is not None:
            assert_same(found, TENSORS)
    for length in range(0, len(content), 5):
        path.write_bytes(content[:length])
        assert checkpoints.load("x") is None
    path.write_bytes(content)
    assert_same(checkpoints.load("x"), TENSORS)


def test_a_folder_in_the_place_of_a_file_counts_as_nothing(tmp_path: Path) -> None:
    (tmp_path / "x.safetensors").mkdir()
    assert Checkpoints(tmp_path).load("x") is None


def test_claim_keeps_its_own_and_throws_away_another_s(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path / "checkpoint")
    checkpoints.take_ownership("first")
    checkpoints.save("x", TENSORS)
    checkpoints.subfolder("part").save("y", TENSORS)
    checkpoints.take_ownership("first")
    assert_same(checkpoints.load("x"), TENSORS)
    assert_same(checkpoints.subfolder("part").load("y"), TENSORS)
    checkpoints.take_ownership("second")
    assert checkpoints.load("x") is None
    assert checkpoints.subfolder("part").load("y") is None
    checkpoints.save("x", TENSORS)
    checkpoints.take_ownership("second")
    assert_same(checkpoints.load("x"), TENSORS)


@pytest.mark.parametrize("mark", [b"", b"{", b"[]", b"{}", b"\xff", b'{"identity": 3}', b"null"])
def test_a_damaged_mark_is_nobody_s(tmp_path: Path, mark: bytes) -> None:
    checkpoints = Checkpoints(tmp_path)
    checkpoints.take_ownership("mine")
    checkpoints.save("x", TENSORS)
    (tmp_path / "identity.json").write_bytes(mark)
    checkpoints.take_ownership("mine")
    assert checkpoints.load("x") is None
    assert json.loads((tmp_path / "identity.json").read_text()) == {"identity": "mine"}


def test_unclaimed_data_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    for remove in (Checkpoints(tmp_path).clear, lambda: Checkpoints(tmp_path).take_ownership("x")):
        with pytest.raises(DataError, match="no identity"):
            remove()
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_an_empty_folder_may_be_claimed_or_removed(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path / "checkpoint")
    checkpoints.folder.mkdir()
    checkpoints.take_ownership("mine")
    assert [path.name for path in checkpoints.folder.iterdir()] == ["identity.json"]
    checkpoints.clear()
    checkpoints.folder.mkdir()
    checkpoints.clear()
    assert not checkpoints.folder.exists()


def test_what_an_interrupted_removal_leaves_can_be_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoints = Checkpoints(tmp_path / "checkpoint")
    checkpoints.take_ownership("mine")
    checkpoints.save("x", TENSORS)
    checkpoints.subfolder("part").save("y", TENSORS)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("shutil.rmtree", interrupted)
        with pytest.raises(KeyboardInterrupt):
            checkpoints.clear()
    assert (checkpoints.folder / "identity.json").exists()
    checkpoints.clear()
    assert not checkpoints.folder.exists()


def test_clear_removes_the_folder_and_may_be_repeated(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path / "checkpoint")
    checkpoints.take_ownership("mine")
    checkpoints.save("x", TENSORS)
    checkpoints.subfolder("part").save("y", TENSORS)
    checkpoints.clear()
    assert not checkpoints.folder.exists()
    checkpoints.clear()


def step(state: TrainingState) -> float:
    """One step whose result hangs on weights, optimiser and both random states."""
    noise = torch.rand(4, 3, generator=state.generator) + torch.rand(4, 3)
    loss = state.encoder(noise).square().mean()
    state.optimiser.zero_grad()
    loss.backward()
    state.optimiser.step()
    state.losses.append(loss.item())
    return state.losses[-1]


def new_state(seed: int) -> TrainingState:
    encoder = nn.Sequential(nn.Linear(3, 5), nn.BatchNorm1d(5), nn.Dropout(0.5), nn.Linear(5, 2))
    optimiser = torch.optim.Adam(encoder.parameters(), lr=0.1)
    return TrainingState(encoder, optimiser, torch.Generator().manual_seed(seed), [])


def test_a_restored_state_goes_on_as_the_saved_one(tmp_path: Path) -> None:
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        state = new_state(seed=1)
        for _ in range(3):
            step(state)
        checkpoints = Checkpoints(tmp_path)
        checkpoints.save("training", state.to_tensors())
        expected = [step(state) for _ in range(4)]
        other = new_state(seed=99)  # other weights, other random states
        saved = checkpoints.load("training")
        assert saved is not None
        other.restore(saved)
        assert len(other.losses) == 3
        assert [step(other) for _ in range(4)] == expected
        assert other.losses == state.losses
        for mine, theirs in zip(
            other.encoder.state_dict().values(), state.encoder.state_dict().values(), strict=True
        ):
            assert torch.equal(mine, theirs)
