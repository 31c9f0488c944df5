"""How a run was computed, to the version."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from xtcl.graph.link_split import LinkSplit
from xtcl.report.page.shown_text import shown

if TYPE_CHECKING:
    from xtcl.estimator import XTCL


@dataclass(frozen=True)
class Computed:
    """Lines of what was asked for, of the versions, and every setting as TOML."""

    settings: tuple[tuple[str, str], ...]
    versions: tuple[tuple[str, str], ...]
    config: str


def computed(model: XTCL, metrics: Mapping[str, Any]) -> Computed:
    """From the model, and the seconds that `metrics.json` may have."""
    from xtcl.runs.directory import config_text

    graph = model.training_side_.graph
    lines = [
        ("Graph", shown(graph.name)),
        ("Fingerprint of the graph", graph.fingerprint()[:16]),
        ("Task", model._result.task.name),
        ("Encoder", model.encoder if isinstance(model.encoder, str) else "of the user's own"),
        ("Seed", str(model.random_state)),
        ("Split", _split(model)),
        ("Epochs", ", ".join(str(len(curve)) for curve in model.loss_curves_)),
    ]
    seconds = metrics.get("seconds")
    if isinstance(seconds, (int, float)):
        lines.append(("Time of the fit", f"{seconds:,.1f} seconds"))
    versions = tuple((name, shown(value)) for name, value in model.environment_.items())
    return Computed(tuple(lines), versions, config_text(model))


def _split(model: XTCL) -> str:
    split = model._split
    if split is None:
        return "none: everything known was trained on"
    if isinstance(split, LinkSplit):
        trained, tested = split.train.shape[1], split.test.shape[1]
    else:
        trained, tested = len(split.train), len(split.test)
    return f"{trained:,} {split.kind} trained, {tested:,} held out (seed {split.seed})"
