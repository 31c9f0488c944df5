"""What about the data should make a reader doubt some answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from xtcl.errors import first_few

if TYPE_CHECKING:
    from xtcl.report.page.health import ClassSize

FEW_TRAINED = 5
"""Labels below which what is learned about a class rests on the oddities of a few nodes."""


def of_scarce_classes(sizes: Sequence[ClassSize]) -> tuple[str, ...]:
    """Sentences with a remedy about classes with fewer labels than `FEW_TRAINED`."""
    none = [f"“{size.name}”" for size in sizes if size.trained == 0]
    single = [f"“{size.name}”" for size in sizes if size.trained == 1]
    few = [f"“{size.name}” ({size.trained})" for size in sizes if size.trained > 1]
    told = []
    if none:
        told.append(
            f"{_classes(none)} had no label to train on: no node can be found to be of it. Label "
            "some nodes of it, or train on a larger share."
        )
    if single:
        told.append(
            f"{_classes(single)} was trained on a single label: what is said of it rests on one "
            "node. Label more, or merge the class with another."
        )
    if few:
        told.append(
            f"{_classes(few)} was trained on fewer than {FEW_TRAINED} labels: take what is said of "
            "it with care. Label more."
        )
    return tuple(told)


def _classes(names: Sequence[str]) -> str:
    return f"Class {names[0]}" if len(names) == 1 else f"Each of the classes {first_few(names)}"
