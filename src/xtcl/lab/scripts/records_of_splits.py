"""What the scripts print of a finished split, and what they store beside its figure."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch

from xtcl.code_digest import source_digest
from xtcl.lab.experiments.provenance import provenance
from xtcl.lab.experiments.records import RecordFile

SCRIPTS = source_digest(Path(__file__).parent.glob("*.py"))


def current_conditions(device: torch.device) -> dict[str, dict[str, str | int]]:
    """What a figure depends on, the code of the scripts included: they change parts of a system."""
    found = provenance(device)
    return found | {"versions": found["versions"] | {"scripts": SCRIPTS}}


def print_split(cell: str, seed: int, figure: float, seconds: float) -> None:
    """Print the figure of a split on stderr."""
    print(f"{cell} split {seed}: {figure:.2f} in {seconds:.1f} s", file=sys.stderr, flush=True)


def add_split(file: RecordFile, key: str, seed: int, value: Any) -> None:
    """Add what belongs to a split to the record with those of the other splits."""
    file.append(key, file.read().get(key, {}) | {str(seed): value})
    file.fold()
