"""Colours of classes, in light and in dark."""

from __future__ import annotations

from xtcl.report.pictures import PALETTE

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
