"""About how long the relations of a fit take on this machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from xtcl.distributed import local_work
from xtcl.planning.sizes import LINKS_TASK, Sizes
from xtcl.relations.registry import resolve_relations
from xtcl.relations.relation import Relation, tile_rows
from xtcl.relations.row_source import LevelSource, TopKSource
from xtcl.relations.rows import usable_relations
from xtcl.relations.view import LABELS, LINKS, TrainingView
from xtcl.tasks.training_data import TrainingData


def relation_seconds(
    data: TrainingData, sizes: Sizes, relations: Sequence[Relation] | None = None
) -> float:
    r"""Seconds of `relations` in a fit: one tile of each is computed and timed.

    By default they are the paper's.

    .. math:: t = \sum_r (n_r \, p_r + m \, t_r)

    with the seconds :math:`p_r` to prepare relation r and :math:`t_r` per row of its tile, the
    number :math:`n_r` of views that a fit prepares it for, and the m rows that a fit needs. Rows
    include their thresholds. Counting patterns, scoring candidates, training and the head are not
    in it. In top-k mode the search is exact, so an index (`index_past`) may be faster.

    Cost: preparing every relation once, and 64 rows of each (1,024 on a GPU).
    """
    device = torch.device(sizes.device)
    labelled = data.labelled if sizes.labelled else ()
    view = TrainingView.of(data.graph, labelled, device)
    tile = min(tile_rows(device), view.num_nodes)
    nodes = torch.linspace(0, view.num_nodes - 1, tile).long().to(device)
    chosen = resolve_relations("paper") if relations is None else relations
    usable, _ = usable_relations(chosen, view)
    total = 0.0
    with local_work():
        for relation in usable:
            for timed, rows in _work(relation, sizes):
                prepare, compute = _time_tile(timed, view, nodes, sizes)
                total += _views(timed, sizes) * prepare + rows * compute / len(nodes)
    return total


def _work(relation: Relation, sizes: Sizes) -> list[tuple[Relation, int]]:
    """The relations to time for `relation`, and how many rows of each a fit computes."""
    rows = sizes.queries * sizes.rounds + sizes.nodes * sizes.rounds
    parts = relation.timed_as()
    if parts is None:
        return [(relation, rows)]
    source, similar = parts
    return [(source, sizes.nodes * sizes.rounds), (similar, rows)]


def _views(relation: Relation, sizes: Sizes) -> int:
    """How many views a fit prepares the relation for: each fold hides links or labels."""
    hidden = LINKS if sizes.task == LINKS_TASK else LABELS
    folds = max(sizes.config.crossfit, 1) if hidden in relation.reads else 0
    return sizes.rounds * (1 + folds)


def _time_tile(
    relation: Relation, view: TrainingView, nodes: Tensor, sizes: Sizes
) -> tuple[float, float]:
    """Seconds to prepare the relation, and to compute the rows of `nodes`."""
    quantiles = sizes.config.sampler.quantiles
    if sizes.cap is None:
        dense = LevelSource(relation, view, quantiles)
        prepared = _seconds(lambda: dense.similarities, view.device)
        return prepared, _seconds_of_rows(lambda: dense.levels(nodes), view.device)
    topk = TopKSource(relation, view, quantiles, sizes.cap)
    prepared = _seconds(lambda: topk.search, view.device)
    return prepared, _seconds_of_rows(lambda: topk.rows(nodes), view.device)


def _seconds_of_rows(compute: Callable[[], object], device: torch.device) -> float:
    if device.type == "cuda":
        compute()  # the first call compiles kernels
    return _seconds(compute, device)


def _seconds(work: Callable[[], object], device: torch.device) -> float:
    start = time.perf_counter()
    work()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter() - start
