"""Searching for cosines: equal rows, several tiles of columns, and the index."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from topk_search_oracle import as_lists
from torch import Tensor

from xtcl.errors import UsageError
from xtcl.relations.cosine import FactorSearch, group_rows, normalize_rows
from xtcl.relations.search import blocked_search
from xtcl.relations.topk import TopK


def random_rows(count: int, columns: int = 20, seed: int = 0) -> Tensor:
    values = np.random.default_rng(seed).normal(size=(count, columns))
    return normalize_rows(torch.from_numpy(values.astype(np.float32)))


def clustered(count: int) -> Tensor:
    centres = random_rows(50, seed=1)
    return normalize_rows(
        centres[torch.arange(count) % 50] + 0.1 * random_rows(count, centres.shape[1])
    )


@pytest.mark.parametrize("count", [100, 8192, 20_000])
def test_finds_the_largest_over_all_tiles(count: int) -> None:
    rows = random_rows(count)
    asked = torch.arange(0, count, count // 50)
    values, places = blocked_search(rows, 10)(asked)
    exact = (rows[asked] @ rows.T).clamp(0, 1)
    expected = torch.sort(exact, dim=1, descending=True, stable=True)
    torch.testing.assert_close(values, expected.values[:, :10], atol=1e-6, rtol=0)
    torch.testing.assert_close(exact.gather(1, places), values, atol=1e-6, rtol=0)


def test_equals_come_in_their_order() -> None:
    """Seven different rows of one-hot factors in 20,000: products are 0 or 1 exactly."""
    kind = torch.from_numpy(np.random.default_rng(0).integers(7, size=20_000))
    rows = torch.nn.functional.pad(torch.eye(7)[kind], (0, 9))
    values, places = blocked_search(rows, 12)(torch.arange(100))
    assert (values == 1).all()
    for u in range(100):
        assert places[u].tolist() == torch.nonzero(kind == kind[u])[:12, 0].tolist()


def test_nodes_of_a_group_differ_only_in_themselves() -> None:
    kind = torch.from_numpy(np.random.default_rng(0).integers(7, size=3000))
    lists = as_lists(FactorSearch(torch.eye(7)[kind], TopK(5, 5))(torch.arange(3000)))
    for u in range(0, 3000, 50):
        same = [int(v) for v in torch.nonzero(kind == kind[u])[:, 0] if v != u]
        assert lists[u] == [(v, 1.0) for v in same[:5]]


def test_groups_are_in_the_order_of_their_first_nodes() -> None:
    rows = torch.tensor([[2.0], [1.0], [2.0], [3.0], [1.0]])
    groups = group_rows(rows)
    assert groups.rows[:, 0].tolist() == [2.0, 1.0, 3.0]
    assert groups.group.tolist() == [0, 1, 0, 2, 1]
    assert groups.start.tolist() == [0, 2, 4, 5]
    assert groups.members.tolist() == [0, 2, 1, 4, 3]


def test_the_index_says_what_it_finds() -> None:
    pytest.importorskip("faiss")
    factors = clustered(6000)
    nodes = torch.arange(0, 6000, 7)
    by_index = FactorSearch(factors, TopK(20, 20, index_threshold=1000))
    found = as_lists(by_index(nodes))
    exact = as_lists(FactorSearch(factors, TopK(20, 20))(nodes))
    hits = sum(
        len({v for v, _ in some} & {v for v, _ in all_})
        for some, all_ in zip(found, exact, strict=True)
    )
    reached = hits / sum(map(len, exact))
    assert by_index.index_recall is not None
    assert by_index.index_recall > 0.9
    assert reached == pytest.approx(by_index.index_recall, abs=0.05)
    order = torch.from_numpy(np.random.default_rng(0).permutation(len(nodes)))
    assert as_lists(by_index(nodes[order][:100])) == [found[i] for i in order[:100]]


def test_few_rows_need_no_index() -> None:
    assert FactorSearch(clustered(500), TopK(5, 5, index_threshold=1000)).index_recall is None


def test_says_how_to_get_the_index(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "faiss", None)
    with pytest.raises(UsageError, match=r"xtcl\[faiss\]"):
        FactorSearch(clustered(500), TopK(5, 5, index_threshold=100))
