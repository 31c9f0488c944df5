"""Seconds and peak memory from two CSV files with text ids to a graph: xtcl against pandas.

    python benchmarks/read_tables.py [--nodes 1000000] [--edges 10000000]

Both read the same files, each in a process of its own, and must agree on the numbers of nodes and
links, on a sum over the links and on the rounded sums of the attributes.
pandas reads with `read_csv`, numbers the ids with `factorize`, scales with its own means and
deviations, makes categories with `get_dummies`, and hands arrays to `Graph.from_arrays`; it checks
nothing that xtcl checks.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from xtcl.graph.graph import Graph

COLORS, TOPICS = ("red", "green", "blue"), ("physics", "biology", "history", "art")


def write_tables(folder: Path, nodes: int, edges: int) -> None:
    """Nodes in a random order with three numbers, a category and a label; edges between them."""
    rng = np.random.default_rng(0)
    ids = pc.binary_join_element_wise(
        "account", pc.cast(pa.array(rng.permutation(nodes)), pa.string()), "-"
    )
    columns: dict[str, Any] = {"id": ids}
    for name in ("age", "income", "visits"):
        columns[name] = rng.normal(10, 3, nodes).round(3)
    columns["color"] = pa.array(np.array(COLORS)[rng.integers(3, size=nodes)])
    columns["topic"] = pa.array(np.array(TOPICS)[rng.integers(4, size=nodes)])
    csv.write_csv(pa.table(columns), folder / "nodes.csv")
    ends = {name: ids.take(pa.array(rng.integers(nodes, size=edges))) for name in ("from", "to")}
    csv.write_csv(pa.table(ends), folder / "edges.csv")


def with_xtcl(folder: Path) -> Graph:
    """The tables as a user would read them."""
    from xtcl import read_tables

    return read_tables(folder / "nodes.csv", folder / "edges.csv", label="topic")


def with_pandas(folder: Path) -> Graph:
    """The same graph by hand."""
    import pandas as pd

    nodes, edges = pd.read_csv(folder / "nodes.csv"), pd.read_csv(folder / "edges.csv")
    codes, _ = pd.factorize(pd.concat([nodes["id"], edges["from"], edges["to"]]))
    numbers = nodes[["age", "income", "visits"]]
    scaled = (numbers - numbers.mean()) / numbers.std(ddof=0)
    dummies = pd.get_dummies(nodes["color"])
    return Graph.from_arrays(
        np.concatenate([scaled.to_numpy(), dummies.to_numpy()], axis=1),
        codes[len(nodes) :].reshape(2, -1),
        nodes["topic"].to_numpy(),
    )


READERS: dict[str, Callable[[Path], Graph]] = {"xtcl": with_xtcl, "pandas": with_pandas}


def measure(reader: str, folder: str, results: Any) -> None:
    """Read once and report seconds, the peak of this process and what was read."""
    start, worked = time.perf_counter(), time.process_time()
    graph = READERS[reader](Path(folder))
    seconds, worked = time.perf_counter() - start, time.process_time() - worked
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    attributes = np.asarray(graph.attributes, np.float64)
    results.put(
        {
            "reader": reader,
            "seconds": round(seconds, 2),
            "processor_seconds": round(worked, 2),  # of all threads; hardly moved by other work
            "peak_gb": round(peak / 2**20, 2),
            "nodes": graph.num_nodes,
            "edges": graph.num_edges,
            "edge_sum": int((graph.edges * [[1], [2]]).sum()),
            "attribute_sums": np.abs(attributes).sum(axis=0).round(0).tolist(),
        }
    )


def main() -> None:
    """Write the tables, read them with both and print one JSON object for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--edges", type=int, default=10_000_000)
    chosen = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        # In another process, too: what this one held would count as the readers' peak.
        writer = context.Process(
            target=write_tables, args=(Path(folder), chosen.nodes, chosen.edges)
        )
        writer.start()
        writer.join()
        found = []
        for reader in READERS:
            results = context.Queue()
            process = context.Process(target=measure, args=(reader, folder, results))
            process.start()
            found.append(results.get())
            process.join()
            print(json.dumps(found[-1]), flush=True)
    same = ("nodes", "edges", "edge_sum", "attribute_sums")
    assert all(found[0][key] == found[1][key] for key in same), "the graphs differ"


if __name__ == "__main__":
    main()
