"""The map of the embeddings: a position and a few facts for each node."""

from __future__ import annotations

import base64
from dataclasses import asdict, dataclass
from io import BytesIO
from typing import Any

import numpy as np

from xtcl.report.charts import PALETTE
from xtcl.report.facts import POSITIVES_SHOWN, RunFacts

MAX_NODES_DRAWN = 20_000
"""Of a larger graph, this many nodes are drawn at random."""

MAP_SIZE = 2000
"""Coordinates are integers from 0 to this: finer than the pixels of a screen."""

_TRAINED, _TESTED, _UNKNOWN = 0, 1, 2

_REST_COLOUR = "#9aa5b1"
"""For classes beyond the palette, and for nodes without a class."""

_LIGHT_PALETTE = (
    *(colour for colour in PALETTE if colour != _REST_COLOUR),
    *("#1b9aaa", "#7f4f24", "#c06c9a", "#5b8c2a"),
)
_BRIGHTER = {"#2a6f97": "#5aa9d6", "#4a4e69": "#d5d9ec", "#7f4f24": "#c08a5a", "#8d6a9f": "#b594c7"}
_DARK_PALETTE = tuple(_BRIGHTER.get(colour, colour) for colour in _LIGHT_PALETTE)


@dataclass(frozen=True)
class NodeMap:
    """Columns with an entry for each node drawn; a `chance` is in thousandths.

    `positives` has indices into `names`, which continues after the nodes drawn with positives that
    are not drawn. `of` is the number of nodes of the graph, `explained` the share of the variance.
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
        """The columns as plain values, for the script of the page."""
        return asdict(self)


def node_map(facts: RunFacts) -> NodeMap:
    """The nodes at the first two principal components of their embeddings."""
    total = facts.graph.num_nodes
    nodes = np.arange(total)
    if total > MAX_NODES_DRAWN:
        nodes = np.sort(np.random.default_rng(0).choice(total, MAX_NODES_DRAWN, replace=False))
    places, explained = project(facts.embedding[nodes])
    part = np.full(total, _UNKNOWN)
    part[facts.trained], part[facts.tested] = _TRAINED, _TESTED
    best = facts.positives[nodes, :POSITIVES_SHOWN]
    named = np.concatenate([nodes, np.setdiff1d(best[best >= 0], nodes)])
    place = np.full(total + 1, -1)  # index -1 stands for no positive
    place[named] = np.arange(len(named))
    sizes = np.bincount(facts.truth[facts.truth >= 0], minlength=len(facts.classes)).tolist()
    return NodeMap(
        names=[facts.name(node) for node in named],
        x=places[:, 0].tolist(),
        y=places[:, 1].tolist(),
        known=facts.truth[nodes].tolist(),
        predicted=facts.predicted[nodes].tolist(),
        chance=np.rint(1000 * facts.confidence[nodes]).astype(int).tolist(),
        part=part[nodes].tolist(),
        links=facts.graph.degrees[nodes].tolist(),
        positives=[[p for p in row if p >= 0] for row in place[best].tolist()],
        classes=list(facts.classes),
        light=class_colours(sizes, _LIGHT_PALETTE),
        dark=class_colours(sizes, _DARK_PALETTE),
        of=total,
        explained=explained,
    )


def project(embedding: np.ndarray) -> tuple[np.ndarray, float]:
    """Positions [n, 2] on the first two principal components, and their share of the variance.

    Each coordinate is scaled to integers from 0 to MAP_SIZE.
    """
    from sklearn.decomposition import PCA

    rows = np.asarray(embedding, dtype=np.float32)
    if min(rows.shape) < 2 or not np.ptp(rows, axis=0).any():
        return np.full((len(rows), 2), MAP_SIZE // 2), 0.0
    axes = PCA(2, svd_solver="randomized", random_state=0)
    points = axes.fit_transform(rows)
    low = points.min(axis=0)
    wide = np.maximum(np.ptp(points, axis=0), 1e-12)
    places = np.rint(MAP_SIZE * (points - low) / wide).astype(int)
    return places, float(axes.explained_variance_ratio_.sum())


def class_colours(sizes: list[int], palette: tuple[str, ...] = _LIGHT_PALETTE) -> list[str]:
    """A colour for every class; if the palette is too short, the smallest classes share one."""
    order = sorted(range(len(sizes)), key=lambda code: -sizes[code])
    own_colour = set(order[: len(palette)])
    colours = iter(palette)
    return [next(colours) if code in own_colour else _REST_COLOUR for code in range(len(sizes))]


def map_picture(nodes: NodeMap) -> str:
    """A PNG as a data URL, coloured by the known class, else by the predicted one."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.0, 5.0))
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    known, predicted = np.array(nodes.known), np.array(nodes.predicted)
    codes = np.where(known >= 0, known, predicted)
    colours = np.array([*nodes.light, _REST_COLOUR])[codes]  # code -1 reads the last colour
    size = 14 if len(codes) < 1000 else 7 if len(codes) < 5000 else 3
    axes.scatter(nodes.x, nodes.y, s=size, c=colours, linewidths=0, alpha=0.8)
    margin = MAP_SIZE / 40
    axes.set(xlim=(-margin, MAP_SIZE + margin), ylim=(-margin, MAP_SIZE + margin))
    axes.set_axis_off()
    out = BytesIO()
    figure.savefig(out, format="png", dpi=130, metadata={"Software": "xtcl"})
    return "data:image/png;base64," + base64.b64encode(out.getvalue()).decode()
