"""How long a fit would take and how much memory, roughly, before anything is computed."""

from __future__ import annotations

from dataclasses import dataclass

from xtcl.graph.graph import Graph
from xtcl.memory import PAIR_BYTES, fixed_bytes
from xtcl.relations.pattern_rows import block_height
from xtcl.tasks.registry import make_task


@dataclass(frozen=True)
class FitEstimate:
    """What one fit takes with the task's own recipe, a GCN and two CPU cores."""

    task: str
    seconds: float
    gigabytes: float


SECONDS = {"nodes": (1.2, 0.0, 8.2e-5, 3.9e-7), "links": (1.1, 2.2e-3, 6.7e-5, 3.3e-7)}
"""A start, then seconds for each node, for each node and root of its attributes, and for each pair
of nodes. Fitted to the processor time of fits of block models (1,000 to 8,000 nodes, 64 and 512
attributes) and Cora on one core, times 0.54, which gave the 15 seconds of Cora's nodes on two. Many
attributes take longer than that: CiteSeer, with 3,703, takes 43 seconds and not 22. For larger
graphs it is a guess."""


def estimate_fit(graph: Graph, task: str) -> FitEstimate:
    """Seconds and memory of a fit of `graph` for "nodes" or "links"."""
    nodes = graph.num_nodes
    start, each, attribute, pair = SECONDS[task]
    seconds = start + nodes * (each + attribute * graph.num_attributes**0.5) + pair * nodes**2
    width = max(plan.width(graph.num_attributes) for plan in make_task(task).recipe("gcn").plans)
    block = PAIR_BYTES * nodes * min(nodes, block_height(nodes))
    return FitEstimate(
        task, round(seconds, 1), round((fixed_bytes(graph, width) + block) / 2**30, 2)
    )
