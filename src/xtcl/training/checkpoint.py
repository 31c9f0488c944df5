"""Intermediate results on disk, so that an interrupted fit can go on where it stopped."""

from __future__ import annotations

import json
import shutil
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from xtcl.distributed import world
from xtcl.errors import DataError
from xtcl.files import atomic_path

CONTIGUOUS = torch.contiguous_format


class NullCheckpoints:
    """Keeps nothing: every fit starts from the beginning."""

    def inside(self, name: str) -> NullCheckpoints:
        """The checkpoints of a part of the work."""
        return self

    def load(self, name: str) -> dict[str, Tensor] | None:
        """What was saved as `name`, or None."""
        return None

    def save(self, name: str, tensors: Mapping[str, Tensor]) -> None:
        """Keep `tensors` as `name`; replaces what was there."""


class Checkpoints(NullCheckpoints):
    """Named sets of tensors in a folder, each a safetensors file that is whole or not there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.owner = folder / "identity.json"

    def inside(self, name: str) -> Checkpoints:
        """A folder in this folder."""
        return Checkpoints(self.folder / name)

    def load(self, name: str) -> dict[str, Tensor] | None:
        """What was saved as `name`; a damaged file counts as none."""
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(self.folder / f"{name}.safetensors", framework="pt") as file:
                tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
                expected = (file.metadata() or {}).get("crc32")
        except (SafetensorError, OSError):
            return None
        return tensors if expected == _checksum(tensors) else None

    def save(self, name: str, tensors: Mapping[str, Tensor]) -> None:
        """Write `tensors` in one step."""
        from safetensors.torch import save_file

        self.folder.mkdir(parents=True, exist_ok=True)
        with atomic_path(self.folder / f"{name}.safetensors") as temporary:
            # Copies: safetensors refuses tensors that share memory, as tied weights do.
            apart = {key: value.clone(memory_format=CONTIGUOUS) for key, value in tensors.items()}
            save_file(apart, temporary, metadata={"crc32": _checksum(apart)})

    def claim(self, identity: str) -> None:
        """Throw away what belongs to another fit than `identity`."""
        mark = json.dumps({"identity": identity}).encode()
        if not self.owner.exists() or self.owner.read_bytes() != mark:
            self.clear()
            self.folder.mkdir(parents=True)
            with atomic_path(self.owner) as temporary:
                temporary.write_bytes(mark)

    def clear(self) -> None:
        """Remove the folder; refuses one with content that no fit has claimed."""
        if not self.folder.exists():
            return
        content = [path for path in self.folder.iterdir() if path != self.owner]
        if content and not self.owner.is_file():
            raise DataError(
                f"'{self.folder}' holds files and no identity.json, so it was not removed: "
                "it is not a fit's; choose another folder, or remove it yourself."
            )
        for path in content:  # the mark goes last: what an interrupt leaves stays ours
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
        self.owner.unlink(missing_ok=True)
        self.folder.rmdir()


def _checksum(tensors: Mapping[str, Tensor]) -> str:
    """The CRC-32 of names, kinds, shapes and content: safetensors itself has none."""
    total = 0
    for name in sorted(tensors):
        value = tensors[name]
        total = zlib.crc32(f"{name} {value.dtype} {tuple(value.shape)}".encode(), total)
        total = zlib.crc32(value.cpu().reshape(-1).view(torch.uint8).numpy().data, total)
    return str(total)


@dataclass
class TrainingState:
    """Everything a training loop needs to go on: weights, optimiser, random states, losses."""

    encoder: nn.Module
    optimiser: torch.optim.Optimizer
    generator: torch.Generator
    losses: list[float]

    def to_tensors(self) -> dict[str, Tensor]:
        """The state as named tensors."""
        tensors = {f"encoder.{k}": v for k, v in self.encoder.state_dict().items()}
        for number, state in self.optimiser.state_dict()["state"].items():
            tensors |= {f"optimiser.{number}.{k}": torch.as_tensor(v) for k, v in state.items()}
        tensors["random.draws"] = self.generator.get_state()
        tensors["random.torch"] = torch.get_rng_state()
        if self.generator.device.type == "cuda":
            tensors["random.cuda"] = torch.cuda.get_rng_state(self.generator.device)
        tensors["losses"] = torch.tensor(self.losses, dtype=torch.float64)
        return tensors

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Put everything back."""
        parts: dict[str, dict[str, Tensor]] = {"encoder": {}, "optimiser": {}}
        for name, value in tensors.items():
            owner, _, rest = name.partition(".")
            parts.setdefault(owner, {})[rest] = value
        self.encoder.load_state_dict(parts["encoder"])
        state: dict[int, dict[str, Tensor]] = {}
        for name, value in parts["optimiser"].items():
            number, _, key = name.partition(".")
            state.setdefault(int(number), {})[key] = value
        self.optimiser.load_state_dict(self.optimiser.state_dict() | {"state": state})
        self.generator.set_state(tensors["random.draws"])
        torch.set_rng_state(tensors["random.torch"])
        if "random.cuda" in tensors:
            torch.cuda.set_rng_state(tensors["random.cuda"], self.generator.device)
        self.losses[:] = tensors["losses"].tolist()


class SharedCheckpoints(NullCheckpoints):
    """What the first rank reads is sent to the others, so that no disk has to be shared."""

    def __init__(self, kept: NullCheckpoints) -> None:
        self.kept = kept

    def inside(self, name: str) -> SharedCheckpoints:
        """The checkpoints of a part of the work."""
        return SharedCheckpoints(self.kept.inside(name))

    def load(self, name: str) -> dict[str, Tensor] | None:
        """What the first rank has saved as `name`, or None."""
        everyone = world()
        return everyone.tensors_from_first(self.kept.load(name) if everyone.first else None)

    def save(self, name: str, tensors: Mapping[str, Tensor]) -> None:
        """Keep `tensors`, which all ranks have, once."""
        if world().first:
            self.kept.save(name, tensors)
