"""How SUGRL is trained, as published for each data set and task."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class SUGRLSettings:
    """The defaults are Cora's; graphs without published settings have them too.

    Cora's lie in the middle of the published ones, and its graph is of the size that most users'
    own are. `layers` are the widths of the perceptron's layers. Of the loss, `pull` is w, `hold`
    w', `margin` m, `gap` m' and `negatives` K.
    """

    layers: tuple[int, ...] = (512, 128)
    dropout: float = 0.3
    learning_rate: float = 5e-3
    weight_decay: float = 5e-5
    epochs: int = 500
    pull: float = 10.0
    hold: float = 1.0
    margin: float = 0.8
    gap: float = 0.2
    negatives: int = 4


LARGE = SUGRLSettings(learning_rate=1e-2, weight_decay=1e-4, epochs=1000)
"""What PubMed, Photo and Computers have in common."""

PUBLISHED = {
    "cora": SUGRLSettings(),
    "citeseer": SUGRLSettings(
        layers=(128,),
        dropout=0.1,
        weight_decay=1e-4,
        epochs=100,
        pull=5.0,
        gap=0.4,
        negatives=5,
    ),
    "pubmed": replace(LARGE, dropout=0.4, pull=20.0, margin=0.5, gap=0.5, negatives=3),
    "photo": replace(LARGE, dropout=0.1, pull=100.0, margin=0.9, gap=0.9, negatives=1),
    "computers": replace(
        LARGE, dropout=0.1, pull=100.0, hold=2.0, margin=0.4, gap=0.6, negatives=5
    ),
}

PUBLISHED_LINKS = {"computers": replace(PUBLISHED["computers"], pull=200.0)}
"""Where link prediction differs from node classification."""
