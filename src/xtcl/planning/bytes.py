"""Bytes that the graph, relations, positives and the head take."""

from __future__ import annotations

import torch

from xtcl.nn.ensemble import ROWS_PER_COPY
from xtcl.planning.sizes import LINKS_TASK, Sizes
from xtcl.relations.blocks import rows_per_block
from xtcl.relations.row_source import TOPK_BLOCK_ROWS
from xtcl.tasks.newton_cg import GRAM_COLUMNS, MAX_SPAN_ROWS, ROTATION_BLOCK
from xtcl.tasks.self_training import MAX_PSEUDO_LABELS


def graph_bytes(sizes: Sizes) -> int:
    """The graph, with the copy that is trained on."""
    return sizes.stored + 128 * sizes.edges + 64 * sizes.nodes


PAIR_BYTES = 56
"""Bytes a pair of the current block costs at the peak: its similarity, a copy to sort, the level,
the score, and two double-precision sort keys of the tie-break with their intermediates."""


LISTED_BYTES = 160
"""The same for a pair that top-k mode lists: its keys and digits before and after they are merged,
and the columns its score, tie-break and node are put into."""


RELATIONS = 9
"""Lists of a node in top-k mode, each as long as the cap."""


LINK_FORMS = 120
"""Bytes a link: five relations have it in both directions, each as a place and a number."""


EXPLORATION, GPU_EXPLORATION = 300 * 2**20, 2 * 2**30
"""Bytes that searches of sparse graphs list at a time in top-k mode (`xtcl.relations.topk`)."""


ABOVE_PAIR, LISTED_PAIR = 3, 4
"""Bytes of a pair in the relation store: where a row has few, its nodes lie further apart."""


SMALLEST_BLOCK = 64
"""Rows that most relations compute at once on a CPU, also where fewer are needed."""


def kept_bytes(sizes: Sizes) -> int:
    """What relations hold from their first row to the end of the fit.

    In exact mode these are the attributes as a dense matrix, the factors of two relations, the
    links in the form of each sparse relation, and for labels the pairs above with a labelled node.
    In top-k mode the factors are there once more in groups of equal rows, for the relation that
    breaks ties, and in an index where there is one; and the attribute label distribution keeps a
    list for every node.
    """
    shared = 4 * sizes.nodes * sizes.attributes + LINK_FORMS * sizes.edges + 40 * sizes.nodes
    if sizes.config.hidden_parts:  # embeddings that are the same whatever labels are hidden
        shared += 4 * sizes.nodes * sum_of_widths(sizes)
    if sizes.cap is None:
        return shared + 2 * sizes.factors + label_pairs_bytes(sizes)
    indexed = sizes.config.sampler.index_past
    copies = 5 if indexed is None or sizes.nodes <= indexed else 9
    return shared + copies * sizes.factors + label_pairs_bytes(sizes)


def preparing_bytes(sizes: Sizes) -> int:
    """What preparing them takes for a moment, beside what is kept."""
    preparing = 2 * sizes.factors + label_pairs_bytes(sizes)
    if sizes.cap is None:
        return preparing
    on_gpu = torch.device(sizes.device).type != "cpu"
    return preparing + (GPU_EXPLORATION if on_gpu else EXPLORATION)


def label_pairs_bytes(sizes: Sizes) -> int:
    """Pairs that spread labels: a similarity and the place of a node each."""
    if not sizes.labelled:
        return 0
    if sizes.cap is not None:
        return 12 * sizes.nodes * sizes.cap
    return int(12 * (1 - max(sizes.config.sampler.quantiles)) * sizes.nodes * sizes.labelled)


def row_bytes(sizes: Sizes) -> int:
    """What one row of a block takes."""
    if sizes.cap is None:
        return PAIR_BYTES * sizes.nodes
    return LISTED_BYTES * min(RELATIONS * sizes.cap, sizes.nodes)


def usual_rows(sizes: Sizes) -> int:
    """Rows of a block where memory is not short; larger blocks are not faster."""
    return rows_per_block(sizes.nodes, sizes.device) if sizes.cap is None else TOPK_BLOCK_ROWS


def smallest_rows(sizes: Sizes) -> int:
    """Rows of the smallest block."""
    return min(SMALLEST_BLOCK, usual_rows(sizes))


def found_bytes(sizes: Sizes) -> int:
    """The tables of positives, for a moment two copies."""
    return 24 * sizes.nodes * sizes.config.positives


def store_bytes(sizes: Sizes) -> int:
    """About what is written to a relation store: the above pairs of all rows, and the positives."""
    if not sizes.store:
        return 0
    rows = sizes.rounds * sizes.nodes + sizes.queries
    above = (1 - min(sizes.config.sampler.quantiles)) * sizes.nodes
    relations = RELATIONS - (2 if sizes.task == LINKS_TASK else 0)
    positives = LISTED_PAIR * sizes.rounds * sizes.nodes * sizes.config.positives
    if sizes.cap is None:
        return int(ABOVE_PAIR * relations * rows * above) + positives
    return int(LISTED_PAIR * relations * rows * min(above, sizes.cap)) + positives


BYTES_OF_HEAD_NUMBER = 4 + 8 + 4
"""Bytes for each number of the rows that a head is fitted on: the float32 number itself, its
rotation in float64, and that rounded to float32."""


BYTES_OF_SPANNED_NUMBER = 32
"""Bytes for each such number where the span of the rows is computed, or features are float64."""


PEAK_OVER_ARRAYS = 1.05
"""The measured peak of a head over the sum of its arrays: 3 % more at 100,000 nodes."""


MOST_PAIRS = 20_000
"""Pairs that a scorer of links is fitted on (`fit_link_head`)."""


def joining_bytes(sizes: Sizes) -> int:
    """The embeddings of the encoders, the joined one, and a block of rows between them."""
    columns = sum_of_widths(sizes)
    return 4 * sizes.nodes * (columns + sizes.width) + 8 * min(sizes.nodes, ROWS_PER_COPY) * columns


def sum_of_widths(sizes: Sizes) -> int:
    """Columns of all encoders of the widest ensemble, without the concatenated attributes."""
    return max(ensemble.width(0) for ensemble in sizes.config.ensembles)


def head_bytes(sizes: Sizes) -> int:
    """The embedding and its head at their peak."""
    return round(PEAK_OVER_ARRAYS * _arrays(sizes))


def _arrays(sizes: Sizes) -> int:
    """The larger of two moments: with a second embedding, and when predictions are labels, too.

    The second one is downweighted; trees copy the columns of the encoders, and centre them.
    """
    embedding = 4 * sizes.nodes * sizes.width
    if sizes.task == LINKS_TASK:
        return embedding + BYTES_OF_SPANNED_NUMBER * min(MOST_PAIRS, 4 * sizes.edges) * sizes.width
    answers = 8 * 3 * sizes.nodes * sizes.classes
    config = sizes.config
    again = min(config.self_training_threshold, config.pseudo_label_precision) < 1
    more = min(MAX_PSEUDO_LABELS, sizes.nodes - sizes.labelled) if again else 0
    embeddings = 2 if config.downweight < 1 else 1
    first = embeddings * embedding + _fit_bytes(sizes, sizes.labelled)
    if config.hidden_parts and "trees" in config.heads:
        first = max(first, embedding + 2 * 4 * sizes.nodes * sum_of_widths(sizes))
    return answers + max(first, embedding + _fit_bytes(sizes, sizes.labelled + more))


def _fit_bytes(sizes: Sizes, rows: int) -> int:
    """The rows of a fit, some of them turned or squared, and arrays of its five folds."""
    if rows <= MAX_SPAN_ROWS:
        return BYTES_OF_SPANNED_NUMBER * rows * sizes.width
    turned = 3 * 8 * min(ROTATION_BLOCK, rows * sizes.width)
    squared = 8 * rows * min(GRAM_COLUMNS, sizes.width)
    folds = 8 * 6 * 5 * rows * sizes.classes
    return BYTES_OF_HEAD_NUMBER * rows * sizes.width + max(turned, squared) + folds
