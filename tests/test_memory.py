"""A memory budget and the block height that keeps it."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from small_runs import small_graph

from xtcl.errors import BudgetError, UsageError
from xtcl.graph.datasets import random_graph
from xtcl.graph.graph import Graph
from xtcl.memory import INTERPRETER, PAIR_BYTES, SMALLEST_BLOCK, parse_memory, rows_within
from xtcl.relations.capped_rows import LISTED_ROWS


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("4GB", 4 * 2**30),
        ("4 gb", 4 * 2**30),
        ("4GiB", 4 * 2**30),
        ("4G", 4 * 2**30),
        ("512M", 512 * 2**20),
        ("1.5 GiB", 3 * 2**29),
        ("0.5T", 2**39),
        ("64kB", 64 * 2**10),
        (" 2048 ", 2048),
        ("2048B", 2048),
        (2048, 2048),
        (np.int64(2048), 2048),
    ],
)
def test_amounts_of_memory(text: str | int, expected: int) -> None:
    assert parse_memory(text) == expected


@pytest.mark.parametrize(
    "text", ["", "GB", "-4GB", "4PB", "4 GB of it", "0", "0GB", "nan", "inf", "1e9", "4,5GB", -1, 0]
)
def test_what_is_no_amount_is_named(text: str | int) -> None:
    with pytest.raises(UsageError, match="is not an amount of memory; write something like 4GB"):
        parse_memory(text)


@given(st.text())
def test_rubbish_is_an_amount_or_a_usage_error(text: str) -> None:
    with contextlib.suppress(UsageError):
        assert parse_memory(text) >= 0


def needed(graph: Graph, width: int) -> int:
    """The fixed part, as the module's docstrings list it."""
    given = graph.attributes
    stored = given.nbytes if isinstance(given, np.ndarray) else given.data.nbytes
    factors = 5 * 4 * graph.num_nodes * graph.num_attributes
    embeddings = 6 * 4 * graph.num_nodes * width
    return INTERPRETER + stored + factors + embeddings + 64 * graph.num_edges


@pytest.mark.parametrize("thin", [False, True])
def test_the_blocks_fill_what_the_fixed_part_leaves(thin: bool) -> None:
    graph = small_graph()
    if thin:
        graph = Graph.from_arrays(sparse.csr_array(graph.attributes), graph.edges)
    fixed, row = needed(graph, 8), PAIR_BYTES * graph.num_nodes
    for rows in (SMALLEST_BLOCK, SMALLEST_BLOCK + 1, 1000):
        assert rows_within(fixed + rows * row, graph, 8) == rows
        assert rows_within(fixed + (rows + 1) * row - 1, graph, 8) == rows
    with pytest.raises(BudgetError):
        rows_within(fixed + SMALLEST_BLOCK * row - 1, graph, 8)


def test_top_k_mode_needs_less_for_a_row_and_no_more_rows_than_are_of_use() -> None:
    graph = random_graph(20_000, num_attributes=2)
    assert rows_within(2**30, graph, 8) < rows_within(2**30, graph, 8, cap=64) < LISTED_ROWS
    assert rows_within(2**40, graph, 8, cap=4) == LISTED_ROWS


def test_a_wider_embedding_leaves_smaller_blocks() -> None:
    graph = small_graph()
    assert rows_within(2**30, graph, 1024) < rows_within(2**30, graph, 8)


def test_too_little_memory_says_how_much_is_needed() -> None:
    graph = small_graph()
    with pytest.raises(BudgetError) as refused:
        rows_within(2**20, graph, 8)
    sentence = str(refused.value)
    assert f"graph '{graph.name}' needs about 0.6 GB and the budget is 0.0 GB" in sentence
    assert "Allow more memory" in sentence
    assert refused.value.exit_code == 4
