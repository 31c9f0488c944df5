"""Intermediate results on disk, from which an interrupted fit goes on."""

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


class NullCheckpoints:
    """Saves nothing: every fit starts from the beginning."""

    def subfolder(self, name: str) -> NullCheckpoints:
        """The checkpoints of a part of the work."""
        return self

    def load(self, name: str) -> dict[str, Tensor] | None:
        """The tensors saved as `name`, or None."""
        return None

    def save(self, name: str, tensors: Mapping[str, Tensor]) -> None:
        """Save `tensors` as `name`, in place of earlier ones."""


class Checkpoints(NullCheckpoints):
    """Named sets of tensors in a folder. Each is a safetensors file, written in one step.

    `identity.json` names the fit that owns the folder.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.owner = folder / "identity.json"

    def subfolder(self, name: str) -> Checkpoints:
        """The checkpoints in a folder of this folder."""
        return Checkpoints(self.folder / name)

    def load(self, name: str) -> dict[str, Tensor] | None:
        """The tensors saved as `name`; None also where the file is damaged."""
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
            copies = {
                key: value.clone(memory_format=torch.contiguous_format)
                for key, value in tensors.items()
            }
            save_file(copies, temporary, metadata={"crc32": _checksum(copies)})

    def take_ownership(self, identity: str) -> None:
        """Make this the folder of the fit `identity`; checkpoints of another fit are removed."""
        content = json.dumps({"identity": identity}).encode()
        if not self.owner.exists() or self.owner.read_bytes() != content:
            self.clear()
            self.folder.mkdir(parents=True)
            with atomic_path(self.owner) as temporary:
                temporary.write_bytes(content)

    def clear(self) -> None:
        """Remove the folder; refuses one with content that no fit owns."""
        if not self.folder.exists():
            return
        content = [path for path in self.folder.iterdir() if path != self.owner]
        if content and not self.owner.is_file():
            raise DataError(
                f"'{self.folder}' holds files and no identity.json, so it was not removed: "
                "it is not a fit's; choose another folder, or remove it yourself."
            )
        for path in content:  # identity.json goes last, so that an interrupt leaves it owned
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
        self.owner.unlink(missing_ok=True)
        self.folder.rmdir()


def _checksum(tensors: Mapping[str, Tensor]) -> str:
    """The CRC-32 of names, types, shapes and content; safetensors itself has no checksum."""
    total = 0
    for name in sorted(tensors):
        value = tensors[name]
        total = zlib.crc32(f"{name} {value.dtype} {tuple(value.shape)}".encode(), total)
        total = zlib.crc32(value.cpu().reshape(-1).view(torch.uint8).numpy().data, total)
    return str(total)


@dataclass
class TrainingState:
    """What a training loop resumes from: weights, optimiser, random states, losses."""

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
        """Set everything from the tensors of `to_tensors`."""
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
    """Checkpoints that the main rank reads and writes for all ranks; no disk has to be shared."""

    def __init__(self, checkpoints: NullCheckpoints) -> None:
        self.checkpoints = checkpoints

    def subfolder(self, name: str) -> SharedCheckpoints:
        """The checkpoints of a part of the work."""
        return SharedCheckpoints(self.checkpoints.subfolder(name))

    def load(self, name: str) -> dict[str, Tensor] | None:
        """The tensors that the main rank saved as `name`, or None."""
        group = world()
        return group.broadcast_tensors(self.checkpoints.load(name) if group.is_main else None)

    def save(self, name: str, tensors: Mapping[str, Tensor]) -> None:
        """Save `tensors`, which are the same on all ranks, once."""
        if world().is_main:
            self.checkpoints.save(name, tensors)
