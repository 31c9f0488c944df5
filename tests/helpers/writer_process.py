"""Uses a store again and again: python writer_process.py FOLDER SEED [KILLS].

Each round writes, opens or computes a relation, finds it right, and removes now and then what
others are using. With KILLS, that many children do so without end and are killed at random moments;
the store must be whole each time. Prints "ok" at the end.
"""

from __future__ import annotations

import multiprocessing
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from small_stores import QUANTILES, blocks, brute_force, listed, open_or_compute
from strategies import make_view

from xtcl.relations.pagerank import PageRank
from xtcl.relations.store import parquet as pairs_file
from xtcl.relations.store.relation_store import RelationStore

VIEW = make_view(40, 0)
RELATIONS = [PageRank(alpha) for alpha in (0.3, 0.5, 0.7)]
PARTS = [list(blocks(VIEW, relation, QUANTILES, 9)) for relation in RELATIONS]
EXPECTED = [brute_force(VIEW, relation, QUANTILES) for relation in RELATIONS]


def use(folder: Path, seed: int, rounds: int) -> None:
    """Write and read, and find the store right every time."""
    rng = np.random.default_rng(seed)
    store = RelationStore(folder, limit=20_000)
    for _ in range(rounds):
        chosen = int(rng.integers(len(RELATIONS)))
        relation = RELATIONS[chosen]
        if rng.random() < 0.5:
            store.put(VIEW, relation, QUANTILES, PARTS[chosen])
        with open_or_compute(store, VIEW, relation, QUANTILES) as stored:
            assert listed(stored.rows(0, 40)) == EXPECTED[chosen]
        if rng.random() < 0.2:
            RelationStore(folder, limit=0).evict()
        store.listing()


def kill_and_look(folder: Path, seed: int, kills: int) -> None:
    """Kill writers at random moments; whatever they leave behind is whole."""
    rng = np.random.default_rng(seed)
    use(folder, seed, rounds=1)  # imports what the children need
    half_written = found = 0
    for kill in range(kills):
        child = multiprocessing.get_context("fork").Process(
            target=use, args=(folder, seed + kill, 10**9)
        )
        child.start()
        time.sleep(float(rng.uniform(0.02, 0.25)))
        child.kill()
        child.join()
        half_written += len(list(folder.glob(".*.tmp")))
        for relation, expected in zip(RELATIONS, EXPECTED, strict=True):
            stored = RelationStore(folder).get(VIEW, relation, QUANTILES)
            if stored is not None:
                found += 1
                with stored:
                    assert listed(stored.rows(0, 40)) == expected
    assert found, "no writer got anywhere"
    assert half_written, "no writer was killed while it wrote"


def main(folder: Path, seed: int, kills: int | None = None) -> None:
    """Do either; a file that is noticed as damaged is an error."""
    warnings.simplefilter("error")
    pairs_file.PAIRS_PER_GROUP = 100
    if kills is None:
        use(folder, seed, rounds=60)
    else:
        kill_and_look(folder, seed, kills)
    print("ok")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
