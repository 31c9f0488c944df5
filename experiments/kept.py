"""What the scripts say of a finished split, and what they keep beside its figure."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch

from xtcl.files import atomic_path
from xtcl.lab.experiments.provenance import code_digest, provenance

SCRIPTS = code_digest(Path(__file__).parent)


def conditions(device: torch.device) -> dict[str, dict[str, str | int]]:
    """What a figure hangs on, the code of the scripts included: they change parts of a system."""
    found = provenance(device)
    return found | {"versions": found["versions"] | {"scripts": SCRIPTS}}


def tell(cell: str, seed: int, figure: float, seconds: float) -> None:
    """One line on stderr."""
    print(f"{cell} split {seed}: {figure:.2f} in {seconds:.1f} s", file=sys.stderr, flush=True)


def keep(path: Path, seed: int, value: Any) -> None:
    """Add what belongs to a split to the file with those of the other splits."""
    kept = json.loads(path.read_text()) if path.exists() else {}
    kept[str(seed)] = value
    with atomic_path(path) as temporary:
        temporary.write_text(json.dumps(kept, indent=1) + "\n")
