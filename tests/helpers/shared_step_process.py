"""One of several processes that train together; see `small_ranks`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from small_ranks import taking_part
from small_training import planted, run

from xtcl.config import BatchConfig, TrainingConfig
from xtcl.training.checkpoint import Checkpoints, SharedCheckpoints

DEEP: dict[str, object] = {"layers": 2, "hops": 1, "dropout": 0.0}
CASES: dict[str, tuple[TrainingConfig, dict[str, object]]] = {
    "full": (
        TrainingConfig(epochs=6, anchors=30, negatives=16, link_dropout=0.3),
        DEEP | {"dropout": 0.4, "batch_norm": True},
    ),
    "one step": (TrainingConfig(epochs=6, anchors=None, negatives=16), DEEP),
    "all neighbours": (
        TrainingConfig(epochs=6, anchors=30, batch=BatchConfig(neighbours=(None, None))),
        DEEP,
    ),
    "some neighbours": (
        TrainingConfig(epochs=13, anchors=30, batch=BatchConfig(neighbours=(2, 2))),
        DEEP | {"dropout": 0.4, "batch_norm": True},
    ),
}
EXACT = ("full", "one step", "all neighbours")
"""Those whose draws do not hang on the number of ranks."""


def trained(case: str, **options: Any) -> dict[str, np.ndarray]:
    """Losses and embedding."""
    settings, encoder = CASES[case]
    _, result = run(planted(), settings, encoder_options=encoder, **options)
    return {"losses": np.array(result.losses), "embedding": result.embedding.numpy()}


def interrupted(case: str, folder: Path) -> dict[str, np.ndarray]:
    """The same with an interrupt two epochs after the checkpoint, and going on from there."""
    checkpoints = SharedCheckpoints(Checkpoints(folder))

    def stop(epoch: int, loss: float) -> None:
        if epoch == 12:
            raise KeyboardInterrupt

    try:
        trained(case, checkpoints=checkpoints, on_epoch=stop)
    except KeyboardInterrupt:
        return trained(case, checkpoints=checkpoints)
    raise AssertionError("nothing interrupted the training")


def main() -> None:
    """Train every case."""
    with taking_part() as (rank, out):
        results = {case: trained(case) for case in CASES}
        results["resumed"] = interrupted("some neighbours", out / "checkpoint")
    flat = {f"{case} {name}": a for case, one in results.items() for name, a in one.items()}
    np.savez(out / f"rank-{rank}.npz", **flat)  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
