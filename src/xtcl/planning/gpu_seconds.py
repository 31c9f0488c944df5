"""How long every stage of a fit takes on one GPU, roughly.

The constants are seconds of an H200, chosen by stages of PubMed, Computers and Cora and whole fits
of CiteSeer and Photo in exact mode, and by 50,000 and a million nodes in top-k mode. docs/memory.md
sets what they give beside what was measured: expect up to twice as much, or half.
"""

from __future__ import annotations

from xtcl.learning.trainer import always_alike
from xtcl.planning.steps import Steps
from xtcl.planning.training_bytes import encoder_of
from xtcl.planning.workload import LINKS, Workload
from xtcl.tasks.recipe import Member
from xtcl.tasks.second_fit import MOST_ROWS

FIRST_FIT = 7.0
"""What the first fit of a process takes on top, at most: libraries are loaded, kernels compiled."""

PASS, LINK = 0.025, 5.0e-7
"""A pass over blocks of rows, of a fold or for positives; a link, in the forms relations want."""
PAIR, PAIR_ATTRIBUTE, NODE_LINK = 4.6e-10, 1.2e-13, 4.7e-11
"""Exact mode: a pair through nine relations; an attribute of it; a link for a node's rows."""
SEARCHED, LISTED = 2.6e-13, 3.2e-7
"""Top-k mode: an attribute of a pair that is searched through; a place of a node's nine lists."""
TRAINING, LAUNCHED = 0.02, 5.0e-3
"""Before the first step; a step whose kernels the CPU launches one by one."""
NUMBER, ARC = 4.0e-11, 2.3e-12
"""A number of a step's rows, forth and back; one that is summed over a link."""
STOPPED = 0.8
"""The share of the epochs that training takes where hidden links say when to stop, as the
seconds of PubMed and Computers suggest."""
HEAD, ROW, HEAD_LINK, COPIED = 0.13, 7.0e-6, 6.5e-6, 1.3e-9
"""A head; a row of it, for each class; a link, for signals of pairs; a number of the embedding on
its way to the host."""


Seconds = tuple[float | None, float | None, float | None, float | None, float | None]


def gpu_seconds(work: Workload) -> Seconds:
    """Seconds of relations, positives, training, embedding and head, of a process that is warm."""
    trained = sum(_training(work, member) for plan in work.recipe.plans for member in plan.members)
    if work.task == LINKS:  # a trial of every plan, and then the best of them
        trained *= 1 + 1 / len(work.recipe.plans)
    if work.recipe.stop_early:
        trained *= STOPPED
    stages = (*_sampling(work), trained, NUMBER * work.nodes * work.width, _head(work))
    first, second, third, fourth, fifth = (each and round(each, 3) for each in stages)
    return first, second, third, fourth, fifth


def _sampling(work: Workload) -> tuple[float | None, float | None]:
    """Relations and positives; not known with an index, which a CPU keeps."""
    index = work.recipe.sampler.index_past
    if work.cap is None:
        compared = PAIR_ATTRIBUTE * work.nodes * work.attributes
        row = PAIR * work.nodes + compared + NODE_LINK * work.edges
    elif index is None or work.nodes <= index:
        compared = SEARCHED * work.nodes * (work.attributes + 16)
        row = LISTED * work.cap + compared
    else:
        return None, None
    folds = max(work.recipe.crossfit, 1)
    graphs = folds if work.task == LINKS else 1  # every fold hides links of its own
    relations = folds * PASS + graphs * LINK * work.edges + work.queries * row
    if work.labelled:
        relations += work.nodes * compared
    return work.rounds * relations, work.rounds * (PASS + work.nodes * row)


def _training(work: Workload, member: Member) -> float:
    steps, settings = Steps.of(work, member), member.training
    numbers = steps.rows[0] * work.columns + sum(steps.rows[1:]) * steps.width
    numbers += settings.step_anchors(work.nodes) * (work.draws * steps.width + settings.negatives)
    arc = NUMBER if work.encoder == "gat" else ARC
    step = NUMBER * numbers + arc * sum(steps.links) * steps.width
    if not always_alike(encoder_of(work, member), settings):
        step = max(step, LAUNCHED)
    return TRAINING + steps.number * step


def _head(work: Workload) -> float:
    copied = COPIED * work.nodes * work.width
    if work.task == LINKS:  # one for every trial, too
        return HEAD * (1 + len(work.recipe.plans)) + HEAD_LINK * work.edges + copied
    more = min(MOST_ROWS, work.nodes - work.labelled) if work.recipe.sure < 1 else 0
    return HEAD + ROW * (work.labelled + more) * max(work.classes, 2) + copied
