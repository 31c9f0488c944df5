"""The map as a picture, for print and where no script runs."""

from __future__ import annotations

import base64
from io import BytesIO

import numpy as np

from xtcl.report.page.colours import REST
from xtcl.report.page.node_map import SIDE, NodeMap


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
