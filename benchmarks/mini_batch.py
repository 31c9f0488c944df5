"""Peak memory and seconds of an epoch: training over the whole graph, and in mini-batches.

    python benchmarks/mini_batch.py [--nodes 20000] [--degree 20] [--encoder gcn] [--layers 2]

Both train the same encoder on the same random graph, each in a process of its own, so that its peak
is its own. `step_gb` is what `xtcl.planning.training_bytes` expects of a step over the whole graph;
`peak_gb` counts all memory of the process and `before_gb` what it had before training.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import time
from dataclasses import replace
from itertools import pairwise
from statistics import median

from xtcl.config import BatchConfig, TrainingConfig


def measure(chosen: argparse.Namespace, batch: BatchConfig) -> None:
    """Train in one way and print what it took as one JSON object."""
    import torch

    from xtcl.graph.datasets.synthetic import block_model
    from xtcl.nn import encoder_factory
    from xtcl.nn.encoder import encoder_inputs
    from xtcl.planning.training_bytes import full_pass_bytes
    from xtcl.sampling.positives import PositiveLists
    from xtcl.training.trainer import train

    graph = block_model(
        chosen.nodes, mean_degree=chosen.degree, num_attributes=chosen.attributes, homophily=0.8
    )
    x, edge_index = encoder_inputs(graph, torch.device("cpu"))
    options = {"width": chosen.width, "layers": chosen.layers, "hops": 1}
    make = encoder_factory(chosen.encoder, x.shape[1], options)
    settings = replace(TrainingConfig(epochs=chosen.epochs, anchors=chosen.anchors), batch=batch)
    needed = full_pass_bytes(make(), graph.num_nodes, graph.num_edges, settings, chosen.draws)
    sources = [PositiveLists.from_links(graph.adjacency, chosen.draws)]
    before, moments = _peak(), [time.perf_counter()]
    train(
        make,
        x,
        edge_index,
        sources,
        settings,
        on_epoch=lambda epoch, loss: moments.append(time.perf_counter()),
    )
    embedding = time.perf_counter() - moments[-1]
    epochs = [end - start for start, end in pairwise(moments)]
    print(
        json.dumps(
            {
                "neighbours": batch.neighbours or "full graph",
                "nodes": graph.num_nodes,
                "edges": graph.num_edges,
                "steps": settings.steps_per_epoch(graph.num_nodes),
                "epoch_seconds": round(median(epochs), 2),
                "embedding_seconds": round(embedding, 2),
                "step_gb": round((needed or 0) / 2**30, 2),
                "before_gb": round(before, 2),
                "peak_gb": round(_peak(), 2),
            }
        ),
        flush=True,
    )


def _peak() -> float:
    """The most memory of this process so far, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def main() -> None:
    """Measure both ways, each in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, size in (
        ("nodes", 20_000),
        ("degree", 20),
        ("attributes", 128),
        ("width", 256),
        ("layers", 2),
        ("anchors", 1024),
        ("draws", 4),
        ("epochs", 3),
        ("block", BatchConfig().block),
    ):
        parser.add_argument(f"--{name}", type=int, default=size)
    parser.add_argument("--encoder", choices=("gcn", "gat"), default="gcn")
    parser.add_argument("--neighbours", default="10,10", help="for each layer; all: all of them")
    chosen = parser.parse_args()
    most = tuple(None if n == "all" else int(n) for n in chosen.neighbours.split(","))
    fresh = multiprocessing.get_context("spawn")
    for batch in (BatchConfig(), BatchConfig(most, chosen.block)):
        process = fresh.Process(target=measure, args=(chosen, batch))
        process.start()
        process.join()


if __name__ == "__main__":
    main()
