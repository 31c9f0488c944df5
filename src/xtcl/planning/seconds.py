"""How long every stage of a fit takes on two CPU cores, roughly, or on a GPU (`gpu_seconds`).

The constants are seconds of one core, fitted to Cora, CiteSeer, Photo and PubMed, a block model of
each mode and task, and multiplied by what two cores made of them. docs/memory.md sets what they
give beside what was measured: expect up to twice as much, or half.
"""

from __future__ import annotations

import math

from xtcl.planning.gpu_seconds import Seconds, gpu_seconds
from xtcl.planning.head_bytes import MOST_PAIRS
from xtcl.planning.steps import Steps
from xtcl.planning.workload import LINKS, Workload
from xtcl.tasks.recipe import Member
from xtcl.tasks.second_fit import MOST_ROWS

TWO_CORES = 0.55
"""What two cores take of the seconds of one: 14 of 25 on Cora, 43 of 77 on CiteSeer."""

PAIR, PAIR_ATTRIBUTE, NODE_LINK = 1.35e-7, 5.0e-11, 5.3e-9
"""Exact mode: a pair through nine relations; an attribute of it; a link for a node's rows."""
LABEL_PAIR = 1.5e-8
"""Exact mode: a pair of the pass that labels are spread by, beside half of its attributes."""
SEARCHED = 4.0e-11
"""Top-k mode: an attribute of a pair that is searched through."""
CENTRES = 25 * 64 * 16
"""Top-k mode: rows that one is compared with to find the centres of an index, in 25 rounds."""
LISTED = 2.2e-5
"""Top-k mode: a place of a node's nine lists."""
PRODUCT, NUMBER, ARC = 3.0e-11, 5.2e-8, 1.5e-8
"""Training: a product of a step, forth and back; a number of an embedding; one of a GAT's links."""
STOPPED = 0.3
"""The share of the epochs that training takes where hidden links say when to stop."""
HEAD = 1.0e-7
"""The head: a number of its rows, for each class."""
SCORER = 4.5e-7
"""The scorer of links: a number of its rows."""


def predicted_seconds(work: Workload) -> Seconds:
    """Seconds of relations, positives, training, embedding and head; None on other devices."""
    if work.on_gpu:
        return gpu_seconds(work)
    if work.device != "cpu":
        return None, None, None, None, None
    relations, positives = _top_k(work) if work.cap else _exact(work)
    trained = sum(_training(work, member) for plan in work.recipe.plans for member in plan.members)
    if work.task == LINKS:  # a trial of every plan, and then the best of them
        relations, positives = 2 * relations, 2 * positives
        trained *= 1 + 1 / len(work.recipe.plans)
    if work.recipe.stop_early:
        trained *= STOPPED
    width = work.width
    embedding = NUMBER * work.nodes * width
    one_core = (relations, positives, trained, embedding, _head(work))
    first, second, third, fourth, fifth = (round(TWO_CORES * each, 2) for each in one_core)
    return first, second, third, fourth, fifth


def _exact(work: Workload) -> tuple[float, float]:
    row = work.nodes * (PAIR + PAIR_ATTRIBUTE * work.attributes) + NODE_LINK * work.edges
    relations = work.queries * row
    if work.labelled:
        spread = LABEL_PAIR + PAIR_ATTRIBUTE / 2 * work.attributes
        relations += work.nodes**2 * spread
    return relations, work.nodes * row


def _top_k(work: Workload) -> tuple[float, float]:
    cap = work.cap or 0
    index = work.recipe.sampler.index_past
    # An index looks into a sixteenth of its cells, or fewer.
    indexed = index is not None and work.nodes > index
    looked = work.nodes / 16 if indexed else work.nodes
    search = SEARCHED * looked * (work.attributes + 16)
    row = LISTED * cap + search
    relations = work.queries * row
    if indexed:  # attributes and labels, of two relations each
        compared = work.nodes * (CENTRES + 4 * math.sqrt(work.nodes))
        relations += SEARCHED * compared * 2 * (work.attributes + 32)
    if work.labelled:
        relations += work.nodes * search
    return relations, work.nodes * row


def _training(work: Workload, member: Member) -> float:
    number, width, rows, links = Steps.of(work, member)
    products = rows[0] * work.columns * width + sum(rows[1:-1]) * width**2
    arcs = sum(links) * width if work.encoder == "gat" else 0
    return number * (PRODUCT * products + NUMBER * sum(rows[1:]) * width + ARC * arcs)


def _head(work: Workload) -> float:
    if work.task == LINKS:
        return SCORER * min(MOST_PAIRS, 4 * work.edges) * work.width
    more = min(MOST_ROWS, work.nodes - work.labelled) if work.recipe.sure < 1 else 0
    return HEAD * (work.labelled + more) * work.width * max(work.classes, 2)
