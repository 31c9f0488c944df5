"""Draw every relation on one small graph: how alike each node is to node u.

    python tools/relation_pictures.py

writes docs/relations/NAME.svg for the nine relations. Values are computed by the relations
themselves, so a picture shows what the code does. A test draws them again and compares.
"""

from __future__ import annotations

from pathlib import Path

import torch

from xtcl.graph.graph import Graph
from xtcl.relations.registry import PAPER_RELATIONS
from xtcl.relations.relation import Relation
from xtcl.relations.view import ATTRIBUTES, LABELS, LINKS, TrainingView

FOLDER = Path(__file__).parents[1] / "docs" / "relations"
PLACES = (
    *((165, 150), (75, 95), (75, 205), (165, 52), (165, 248), (270, 150), (360, 95)),
    *((360, 205), (450, 52), (450, 248), (540, 150), (630, 95), (630, 230)),
)
LINKED = (
    *((0, 1), (0, 2), (1, 2), (0, 3), (1, 3), (0, 4), (2, 4), (0, 5), (5, 6), (5, 7)),
    *((6, 7), (6, 8), (7, 9), (8, 10), (9, 10), (10, 11)),
)
WORDS = ["ab", "ab", "abc", "a", "bc", "b", "cd", "cd", "bd", "d", "cd", "ab", "ab"]
CLASSES = ["A", "A", "A", "A", "A", "A", "B", "B", "B", "B", "B", "A", "A"]
KNOWN = (1, 3, 4, 6, 9, 10)
U = 0
NODES = 200
RADIUS, WIDTH, HEIGHT = 21, 705, 300
FONT = "font-family='sans-serif' text-anchor='middle' dominant-baseline='central'"
HALO = "stroke='#ffffff' stroke-width='4' paint-order='stroke'"


def small_graph() -> TrainingView:
    """Thirteen nodes that are drawn: u in its group, another group across a bridge, one isolated.

    They are part of a graph of 200 nodes, of which one in a hundred is above the quantile.
    """
    others = NODES - len(PLACES)
    words = [[float(word in node) for word in "abcd"] for node in [*WORDS, *[""] * others]]
    links = [[u for u, _ in LINKED], [v for _, v in LINKED]]
    classes = [*CLASSES, *[None] * others]
    graph = Graph.from_arrays(attributes=words, edges=links, labels=classes, name="small graph")
    return TrainingView.of(graph, labelled=KNOWN)


def draw(relation: Relation) -> str:
    """The picture as SVG: darker is more alike, the figure is the similarity to u."""
    values = relation.on(small_graph())(torch.tensor([U]))[0, : len(PLACES)].tolist()
    most = max(value for v, value in enumerate(values) if v != U)
    reads = relation.reads
    parts = [
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {HEIGHT}' role='img'>",
        f"<title>{relation.title}: similarity of every node to u</title>",
        f"<rect width='{WIDTH}' height='{HEIGHT}' rx='8' fill='#ffffff'/>",
    ]
    strokes = "stroke='#8a94a0' stroke-width='2'"
    if LINKS not in reads:
        strokes = "stroke='#dfe3e8' stroke-width='1.5' stroke-dasharray='3 4'"
    for u, v in LINKED:
        (x1, y1), (x2, y2) = PLACES[u], PLACES[v]
        parts.append(f"<line x1='{x1}' y1='{y1}' x2='{x2}' y2='{y2}' {strokes}/>")
    for node, ((x, y), value) in enumerate(zip(PLACES, values, strict=True)):
        parts += _node(node, x, y, value, most, reads)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _node(node: int, x: int, y: int, value: float, most: float, reads: frozenset[str]) -> list[str]:
    share = value / most if most else 0.0
    fill, ink = _blue(share), "#ffffff" if share > 0.55 else "#1c2733"
    ring, text = "stroke='#5b6672' stroke-width='1.2'", _figure(value)
    if node == U:
        fill, ink, ring, text = "#f2b134", "#1c2733", "stroke='#8f5f00' stroke-width='3'", "u"
    parts = [
        f"<circle cx='{x}' cy='{y}' r='{RADIUS}' fill='{fill}' {ring}/>",
        f"<text x='{x}' y='{y}' {FONT} font-size='13' fill='{ink}'>{text}</text>",
    ]
    notes = []
    if ATTRIBUTES in reads:
        notes.append(f"<tspan fill='#44505c'>{WORDS[node]}</tspan>")
    if LABELS in reads:
        shown = CLASSES[node] if node in KNOWN else "?"
        colour = {"A": "#a3195b", "B": "#0b6e4f", "?": "#8a94a0"}[shown]
        notes.append(f"<tspan font-weight='bold' fill='{colour}'>{shown}</tspan>")
    if notes:
        below = y + RADIUS + 11
        parts.append(
            f"<text x='{x}' y='{below}' {FONT} font-size='13' {HALO}>{' '.join(notes)}</text>"
        )
    return parts


def _figure(value: float) -> str:
    return "0" if value == 0 else f"{value:.2f}" if value >= 0.005 else "&lt;.01"


def _blue(share: float) -> str:
    low, high = (238, 243, 248), (11, 79, 138)
    mixed = [round(a + (b - a) * share) for a, b in zip(low, high, strict=True)]
    return "#" + "".join(f"{part:02x}" for part in mixed)


def main() -> None:
    """Write all nine."""
    for kind in PAPER_RELATIONS:
        (FOLDER / f"{kind.name}.svg").write_text(draw(kind()), encoding="utf-8")


if __name__ == "__main__":
    main()
