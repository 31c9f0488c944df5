"""The map of embeddings: where each node lies, and what is known of it, column by column."""

from __future__ import annotations

import base64
from dataclasses import asdict, dataclass
from io import BytesIO
from typing import Any

import numpy as np

from xtcl.report.charts import PALETTE
from xtcl.report.facts import POSITIVES, RunFacts

MOST = 20_000
"""Nodes that are drawn; of a larger graph, this many at random."""


SIDE = 2000
"""Places along each side of the map: finer than a screen shows."""


TRAINED, TESTED, UNKNOWN = 0, 1, 2


@dataclass(frozen=True)
class NodeMap:
    """Columns with an entry for each node drawn; `positives` has rows of places in `names`.

    `names` goes on past the nodes drawn, with positives that are not among them.
    """

    names: list[str]
    x: list[int]
    y: list[int]
    known: list[int]
    predicted: list[int]
    chance: list[int]
    part: list[int]
    links: list[int]
    positives: list[list[int]]
    classes: list[str]
    light: list[str]
    dark: list[str]
    of: int
    explained: float

    def to_json(self) -> dict[str, Any]:
        """Plain values; a chance is in thousandths."""
        return asdict(self)


def node_map(facts: RunFacts) -> NodeMap:
    """The nodes along the two directions in which their embeddings differ most."""
    total = facts.graph.num_nodes
    nodes = np.arange(total)
    if total > MOST:
        nodes = np.sort(np.random.default_rng(0).choice(total, MOST, replace=False))
    places, explained = project(facts.embedding[nodes])
    part = np.full(total, UNKNOWN)
    part[facts.trained], part[facts.tested] = TRAINED, TESTED
    best = facts.positives[nodes, :POSITIVES]
    named = np.concatenate([nodes, np.setdiff1d(best[best >= 0], nodes)])
    place = np.full(total + 1, -1)  # the last is for positives that are not there
    place[named] = np.arange(len(named))
    sizes = np.bincount(facts.truth[facts.truth >= 0], minlength=len(facts.classes)).tolist()
    return NodeMap(
        names=[facts.name(node) for node in named],
        x=places[:, 0].tolist(),
        y=places[:, 1].tolist(),
        known=facts.truth[nodes].tolist(),
        predicted=facts.predicted[nodes].tolist(),
        chance=np.rint(1000 * facts.sureness[nodes]).astype(int).tolist(),
        part=part[nodes].tolist(),
        links=facts.graph.degrees[nodes].tolist(),
        positives=[[p for p in row if p >= 0] for row in place[best].tolist()],
        classes=list(facts.classes),
        light=class_colours(sizes, LIGHT),
        dark=class_colours(sizes, DARK),
        of=total,
        explained=explained,
    )


def project(embedding: np.ndarray) -> tuple[np.ndarray, float]:
    """Places [n, 2] from 0 to SIDE on the first two principal axes, and their share of spread."""
    from sklearn.decomposition import PCA

    rows = np.asarray(embedding, dtype=np.float32)
    if min(rows.shape) < 2 or not np.ptp(rows, axis=0).any():
        return np.full((len(rows), 2), SIDE // 2), 0.0
    axes = PCA(2, svd_solver="randomized", random_state=0)
    points = axes.fit_transform(rows)
    low = points.min(axis=0)
    wide = np.maximum(np.ptp(points, axis=0), 1e-12)
    places = np.rint(SIDE * (points - low) / wide).astype(int)
    return places, float(axes.explained_variance_ratio_.sum())


REST = "#9aa5b1"
"""Classes beyond those that can be told apart, and nodes without one."""


FURTHER = ("#1b9aaa", "#7f4f24", "#c06c9a", "#5b8c2a")


LIGHT = (*(colour for colour in PALETTE if colour != REST), *FURTHER)


BRIGHTER = {"#2a6f97": "#5aa9d6", "#4a4e69": "#d5d9ec", "#7f4f24": "#c08a5a", "#8d6a9f": "#b594c7"}


DARK = tuple(BRIGHTER.get(colour, colour) for colour in LIGHT)


def class_colours(sizes: list[int], palette: tuple[str, ...] = LIGHT) -> list[str]:
    """A colour for every class; of more than the palette has, the smallest share the last."""
    order = sorted(range(len(sizes)), key=lambda code: -sizes[code])
    told = set(order[: len(palette)])
    colours = iter(palette)
    return [next(colours) if code in told else REST for code in range(len(sizes))]


def map_picture(nodes: NodeMap) -> str:
    """A PNG as a data address: known classes in colour, else predicted ones."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.0, 5.0))
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    known, predicted = np.array(nodes.known), np.array(nodes.predicted)
    codes = np.where(known >= 0, known, predicted)
    colours = np.array([*nodes.light, REST])[codes]  # code -1 reads the last
    size = 14 if len(codes) < 1000 else 7 if len(codes) < 5000 else 3
    axes.scatter(nodes.x, nodes.y, s=size, c=colours, linewidths=0, alpha=0.8)
    margin = SIDE / 40
    axes.set(xlim=(-margin, SIDE + margin), ylim=(-margin, SIDE + margin))
    axes.set_axis_off()
    out = BytesIO()
    figure.savefig(out, format="png", dpi=130, metadata={"Software": "xtcl"})
    return "data:image/png;base64," + base64.b64encode(out.getvalue()).decode()
