"""Exact mode beside the floor of the machine: where the seconds go, and how few there could be.

    python benchmarks/floor.py [--dataset pubmed] [--device auto] [--repeats 5] [--data DIR]

First the device is measured: bytes a second of a copy, operations a second of a float32 product.
Then the stages of exact mode on the whole data set, each relation apart: its rows, and the levels
of one relation. The floor of a stage is what it cannot do without, every operand read and every
result written once: bytes over the measured bandwidth, or operations over the measured rate,
whichever is more. Last, all together as a fit does it, from the graph to positives, when everything
has been loaded once (warm), and its floor, the sum of those of its stages. Seconds are the best of
the repeats.
"""

from __future__ import annotations

import argparse
import math
import os
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from xtcl.device import pick_device
from xtcl.graph.datasets.load import load_dataset
from xtcl.model_selection.evaluation import make_split
from xtcl.relations.blocks import rows_per_block
from xtcl.relations.graph_distance import GraphDistance
from xtcl.relations.pagerank import PageRank, products
from xtcl.relations.registry import resolve_relations
from xtcl.relations.relation import Relation
from xtcl.relations.thresholds import PAPER_QUANTILES, levels
from xtcl.relations.view import TrainingView
from xtcl.tasks import make_task
from xtcl.tasks.fit_options import FitOptions
from xtcl.tasks.sampled_positives import sample_positives
from xtcl.tasks.training_data import training_data

FLOAT, CODE, LEVEL = 4, 2, 1
"""Bytes of a similarity, of a pattern code and of a level."""


class Machine(NamedTuple):
    """What a device can do in a second."""

    bandwidth: float
    rate: float

    def floor(self, moved: float, operations: float = 0.0) -> float:
        """The fewest seconds for so many bytes and operations, both at the same time."""
        return max(moved / self.bandwidth, operations / self.rate)


class Stage(NamedTuple):
    """A part of the work, its seconds, and the fewest that it could take."""

    name: str
    seconds: float
    floor: float

    def line(self) -> str:
        """The stage as a row of the table."""
        return (
            f"{self.name:42} {self.seconds:9.4f} {self.floor:9.4f} {self.seconds / self.floor:7.1f}"
        )


def best_of(work: Callable[[], object], repeats: int, device: torch.device) -> float:
    """Seconds of the quickest of some runs."""

    def once() -> float:
        start = time.perf_counter()
        work()
        if device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - start

    once()
    return min(once() for _ in range(repeats))


def measured(device: torch.device, repeats: int) -> Machine:
    """What a large copy and a large product reach."""
    large = torch.rand(2**28 if device.type == "cuda" else 2**26, device=device)
    other = torch.empty_like(large)
    copied = best_of(lambda: other.copy_(large), repeats, device)
    side = 8192 if device.type == "cuda" else 2048
    square = torch.rand(side, side, device=device)
    multiplied = best_of(lambda: square @ square, repeats, device)
    return Machine(2 * FLOAT * large.numel() / copied, 2 * side**3 / multiplied)


def least(relation: Relation, view: TrainingView) -> tuple[float, float]:
    """Bytes and operations without which there are no rows of all nodes."""
    pairs = view.num_nodes**2
    if isinstance(relation, PageRank):  # a product reads two arrays and writes one
        return products(relation.alpha) * 3 * FLOAT * pairs, 0.0
    if isinstance(relation, GraphDistance):  # a step reads and writes a bit, the answer is a number
        return (relation.diameter(view) * 2 / 8 + FLOAT) * pairs, 0.0
    factors = relation.factors(view)
    columns = 0 if factors is None else factors.shape[1]
    return FLOAT * pairs, 2.0 * pairs * columns


def stages(view: TrainingView, machine: Machine, repeats: int) -> Iterator[Stage]:
    """Every relation's rows for all nodes, then the levels of one of them."""
    nodes = torch.arange(view.num_nodes, device=view.device)
    blocks = torch.split(nodes, rows_per_block(view.num_nodes, view.device))
    for relation in resolve_relations("paper"):
        rows = relation.on(view)

        def all_rows(rows: Callable[[Tensor], Tensor] = rows) -> None:
            for block in blocks:
                rows(block)

        seconds = best_of(all_rows, repeats, view.device)
        yield Stage(f"rows of {relation.name}", seconds, machine.floor(*least(relation, view)))
    some = rows(blocks[0])

    def all_levels() -> None:
        for _ in range(math.ceil(len(nodes) / len(some))):
            levels(some, blocks[0], PAPER_QUANTILES)

    seconds = best_of(all_levels, repeats, view.device)
    floor = machine.floor((FLOAT + LEVEL) * view.num_nodes**2)
    yield Stage("levels of a relation", seconds, floor)


def main() -> None:
    """Print the machine, the stages and the whole."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dataset", default="pubmed")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--data", default=os.environ.get("XTCL_DATA"))
    chosen = parser.parse_args()
    device = pick_device(chosen.device)
    graph = load_dataset(chosen.dataset, chosen.data)
    side = training_data(graph, make_split(graph, "nodes", 0))
    machine = measured(device, chosen.repeats)
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
    print(
        f"{name}, {torch.get_num_threads()} threads: {machine.bandwidth / 1e9:,.0f} GB/s copied,",
        end=" ",
    )
    print(f"{machine.rate / 1e12:,.2f} TFLOP/s in float32")
    size = f"{graph.num_nodes:,} nodes, {graph.num_edges:,} links"
    print(f"{chosen.dataset}: {size}, best of {chosen.repeats}")
    print(f"{'stage':42} {'seconds':>9} {'floor':>9} {'times':>7}")
    floor = 0.0
    relations = len(resolve_relations("paper"))
    view = TrainingView.of(side.graph, side.labelled, device)
    for stage in stages(view, machine, chosen.repeats):
        print(stage.line(), flush=True)
        floor += stage.floor * (relations if stage.name.startswith("levels") else 1)
    task = make_task("nodes")
    recipe, options = task.recipe("gcn"), FitOptions(device=device)
    # Codes are written and read, scores written and read once to find the best.
    floor += machine.floor(2 * (CODE + FLOAT) * graph.num_nodes**2)
    asked = 1 + len(side.labelled) / graph.num_nodes  # rows of labelled nodes are counted, too
    seconds = best_of(
        lambda: sample_positives(side.graph, task, recipe, options), chosen.repeats, device
    )
    print(Stage("relations, sampler and positives together", seconds, asked * floor).line())


if __name__ == "__main__":
    main()
