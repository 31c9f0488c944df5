"""How long every stage of a fit takes on two CPU cores, roughly, or on a GPU (`gpu_seconds`).

The constants are seconds of one core, fitted to Cora, CiteSeer, Photo and PubMed, a block model of
each mode and task, and multiplied by what two cores made of them. docs/memory.md sets what they
give beside what was measured: expect up to twice as much, or half.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from xtcl.config import EncoderConfig
from xtcl.nn.encoder import LayerwiseEncoder
from xtcl.planning.bytes import MOST_PAIRS, encoder_of, step_rows
from xtcl.planning.sizes import LINKS, Sizes
from xtcl.tasks.self_training import MAX_ROWS
from xtcl.training.trainer import can_capture

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


def predicted_seconds(work: Sizes) -> Seconds:
    """Seconds of relations, positives, training, embedding and head; None on other devices."""
    if work.on_gpu:
        return gpu_seconds(work)
    if work.device != "cpu":
        return None, None, None, None, None
    relations, positives = _top_k(work) if work.cap else _exact(work)
    trained = sum(
        _training(work, member) for plan in work.recipe.ensembles for member in plan.encoders
    )
    if work.task == LINKS:  # a trial of every plan, and then the best of them
        relations, positives = 2 * relations, 2 * positives
        trained *= 1 + 1 / len(work.recipe.ensembles)
    if work.recipe.stop_early:
        trained *= STOPPED
    width = work.width
    embedding = NUMBER * work.nodes * width
    one_core = (relations, positives, trained, embedding, _head(work))
    first, second, third, fourth, fifth = (round(TWO_CORES * each, 2) for each in one_core)
    return first, second, third, fourth, fifth


def _exact(work: Sizes) -> tuple[float, float]:
    row = work.nodes * (PAIR + PAIR_ATTRIBUTE * work.attributes) + NODE_LINK * work.edges
    relations = work.queries * row
    if work.labelled:
        spread = LABEL_PAIR + PAIR_ATTRIBUTE / 2 * work.attributes
        relations += work.nodes**2 * spread
    return relations, work.nodes * row


def _top_k(work: Sizes) -> tuple[float, float]:
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


def _training(work: Sizes, member: EncoderConfig) -> float:
    number, width, rows, links = Steps.of(work, member)
    products = rows[0] * work.columns * width + sum(rows[1:-1]) * width**2
    arcs = sum(links) * width if work.encoder == "gat" else 0
    return number * (PRODUCT * products + NUMBER * sum(rows[1:]) * width + ARC * arcs)


def _head(work: Sizes) -> float:
    if work.task == LINKS:
        return SCORER * min(MOST_PAIRS, 4 * work.edges) * work.width
    more = (
        min(MAX_ROWS, work.nodes - work.labelled) if work.recipe.self_training_threshold < 1 else 0
    )
    return HEAD * (work.labelled + more) * work.width * max(work.classes, 2)


# How long every stage of a fit takes on one GPU, roughly.
#
# The constants are seconds of an H200, chosen by stages of PubMed, Computers and Cora and whole
# fits
# of CiteSeer and Photo in exact mode, and by 50,000 and a million nodes in top-k mode.
# docs/memory.md
# sets what they give beside what was measured: expect up to twice as much, or half.


FIRST_FIT = 7.0
"""What the first fit of a process takes on top, at most: libraries are loaded, kernels compiled."""


PASS, LINK = 0.025, 5.0e-7
"""A pass over blocks of rows, of a fold or for positives; a link, in the forms relations want."""


GPU_PAIR, GPU_PAIR_ATTRIBUTE, GPU_NODE_LINK = 4.6e-10, 1.2e-13, 4.7e-11
"""Exact mode: a pair through nine relations; an attribute of it; a link for a node's rows."""


GPU_SEARCHED, GPU_LISTED = 2.6e-13, 3.2e-7
"""Top-k mode: an attribute of a pair that is searched through; a place of a node's nine lists."""


TRAINING, LAUNCHED = 0.02, 5.0e-3
"""Before the first step; a step whose kernels the CPU launches one by one."""


GPU_NUMBER, GPU_ARC = 4.0e-11, 2.3e-12
"""A number of a step's rows, forth and back; one that is summed over a link."""


GPU_STOPPED = 0.8
"""The share of the epochs that training takes where hidden links say when to stop, as the
seconds of PubMed and Computers suggest."""


GPU_HEAD, ROW, HEAD_LINK, COPIED = 0.13, 7.0e-6, 6.5e-6, 1.3e-9
"""A head; a row of it, for each class; a link, for signals of pairs; a number of the embedding on
its way to the host."""


Seconds = tuple[float | None, float | None, float | None, float | None, float | None]


def gpu_seconds(work: Sizes) -> Seconds:
    """Seconds of relations, positives, training, embedding and head, of a process that is warm."""
    trained = sum(
        _gpu_training(work, member) for plan in work.recipe.ensembles for member in plan.encoders
    )
    if work.task == LINKS:  # a trial of every plan, and then the best of them
        trained *= 1 + 1 / len(work.recipe.ensembles)
    if work.recipe.stop_early:
        trained *= GPU_STOPPED
    stages = (*_sampling(work), trained, GPU_NUMBER * work.nodes * work.width, _gpu_head(work))
    first, second, third, fourth, fifth = (each and round(each, 3) for each in stages)
    return first, second, third, fourth, fifth


def _sampling(work: Sizes) -> tuple[float | None, float | None]:
    """Relations and positives; not known with an index, which a CPU keeps."""
    index = work.recipe.sampler.index_past
    if work.cap is None:
        compared = GPU_PAIR_ATTRIBUTE * work.nodes * work.attributes
        row = GPU_PAIR * work.nodes + compared + GPU_NODE_LINK * work.edges
    elif index is None or work.nodes <= index:
        compared = GPU_SEARCHED * work.nodes * (work.attributes + 16)
        row = GPU_LISTED * work.cap + compared
    else:
        return None, None
    folds = max(work.recipe.crossfit, 1)
    graphs = folds if work.task == LINKS else 1  # every fold hides links of its own
    relations = folds * PASS + graphs * LINK * work.edges + work.queries * row
    if work.labelled:
        relations += work.nodes * compared
    return work.rounds * relations, work.rounds * (PASS + work.nodes * row)


def _gpu_training(work: Sizes, member: EncoderConfig) -> float:
    steps, settings = Steps.of(work, member), member.training
    numbers = steps.rows[0] * work.columns + sum(steps.rows[1:]) * steps.width
    numbers += settings.anchors_per_step(work.nodes) * (
        work.draws * steps.width + settings.negatives
    )
    arc = GPU_NUMBER if work.encoder == "gat" else GPU_ARC
    step = GPU_NUMBER * numbers + arc * sum(steps.links) * steps.width
    if not can_capture(encoder_of(work, member), settings):
        step = max(step, LAUNCHED)
    return TRAINING + steps.number * step


def _gpu_head(work: Sizes) -> float:
    copied = COPIED * work.nodes * work.width
    if work.task == LINKS:  # one for every trial, too
        return GPU_HEAD * (1 + len(work.recipe.ensembles)) + HEAD_LINK * work.edges + copied
    more = (
        min(MAX_ROWS, work.nodes - work.labelled) if work.recipe.self_training_threshold < 1 else 0
    )
    return GPU_HEAD + ROW * (work.labelled + more) * max(work.classes, 2) + copied


class Steps(NamedTuple):
    """The steps of a member of a plan."""

    number: int
    width: int
    rows: list[int]
    """Rows that go into each layer, and come out of the last."""
    links: list[int]
    """Links that each layer looks along."""

    @classmethod
    def of(cls, work: Sizes, member: EncoderConfig) -> Steps:
        """Counting a single layer for an encoder of the user's own."""
        encoder, settings = encoder_of(work, member), member.training
        looks = encoder.looks if isinstance(encoder, LayerwiseEncoder) else (True,)
        rows = [work.nodes] * (len(looks) + 1)
        links = [2 * work.edges * look for look in looks]
        if settings.batch.neighbours is not None and isinstance(encoder, LayerwiseEncoder):
            rows, links = step_rows(encoder, work.nodes, work.edges, settings, work.draws)
        number = settings.epochs * settings.steps_per_epoch(work.nodes)
        return cls(number, getattr(encoder, "width", 512), rows, links)
