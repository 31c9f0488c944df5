"""What had to be changed to make the given edges those of a simple undirected graph."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Repairs:
    """Counts of what was repaired, in the order in which the repairs happen.

    1. `loops_dropped`: entries that joined a node to itself.
    2. `duplicates_merged`: entries that repeated an earlier (u, v) exactly.
    3. `directions_removed`: of the entries that are left, those with no reverse partner. A list
       that gives every edge once is a plain undirected edge list, and one that gives every edge in
       both directions is the usual convention; neither is a repair. Only where the list mixes the
       two, or where the source says that it is directed, did one-way entries lose a direction.

    False when nothing was repaired.
    """

    duplicates_merged: int = 0
    loops_dropped: int = 0
    directions_removed: int = 0

    def __bool__(self) -> bool:
        return any((self.duplicates_merged, self.loops_dropped, self.directions_removed))

    def sentences(self) -> list[str]:
        """One sentence for each kind of repair that was made; empty when there was none."""
        sentences = []
        if self.loops_dropped:
            loops = _count(
                self.loops_dropped,
                "edge from a node to itself was",
                "edges from a node to itself were",
            )
            sentences.append(f"{loops} dropped.")
        if self.duplicates_merged:
            duplicates = _count(self.duplicates_merged, "repeated edge was", "repeated edges were")
            sentences.append(f"{duplicates} merged.")
        if self.directions_removed:
            directions = _count(self.directions_removed, "one-way edge was", "one-way edges were")
            sentences.append(f"{directions} made undirected.")
        return sentences


def _count(number: int, singular: str, plural: str) -> str:
    return f"{number:,} {singular if number == 1 else plural}"
