"""Both ways to count common neighbours, against the product of matrices."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given
from hypothesis import strategies as st
from small_runs import small_graph
from strategies import views

from xtcl.relations import common_neighbours as common_neighbours_shared_neighbours
from xtcl.relations import common_neighbours as module
from xtcl.relations.common_neighbours import common_neighbours
from xtcl.relations.jaccard import Jaccard
from xtcl.relations.link import Link
from xtcl.relations.relation import Relation
from xtcl.relations.topk_rows import topk_pair_similarities
from xtcl.relations.topology import Topology
from xtcl.relations.view import TrainingView

CPU = torch.device("cpu")


def star_and_chance(num_nodes: int) -> sp.csr_array:
    """Random links, a hub, and a node without any."""
    links = np.triu(np.random.default_rng(0).random((num_nodes, num_nodes)) < 0.1, 1)
    links[0, 1:] = True
    links[:, -1] = False
    return sp.csr_array((links | links.T).astype(np.float32))


@pytest.mark.parametrize("path", [0, 10**9])
@pytest.mark.parametrize("most", [1, 100, 2**25])
def test_common_neighbours_are_counted(
    path: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PATH_COST", {"cpu": path})  # walked, or multiplied
    monkeypatch.setattr(module, "MAX_PATHS", most)
    links = star_and_chance(30)
    nodes = torch.tensor([0, 29, 7, 3, 7])
    found = common_neighbours(links, CPU)(nodes)
    dense = links.toarray()
    assert found.dtype == torch.float32
    assert np.array_equal(found.numpy(), (dense @ dense)[nodes.numpy()])


# Similarities of single pairs, against the exact rows they lie in.


@pytest.mark.parametrize("relation", [Link(), Jaccard(), Jaccard(hops=2), Topology()], ids=repr)
@given(views(), st.integers(1, 40))
def test_are_those_of_the_exact_row(relation: Relation, view: TrainingView, at_once: int) -> None:
    row, partner = torch.nonzero(~torch.eye(view.num_nodes, dtype=torch.bool), as_tuple=True)
    nodes = torch.arange(view.num_nodes).flip(0)
    row = nodes[row]  # any order
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(common_neighbours_shared_neighbours, "MAX_LOOKUPS", at_once)
        found = topk_pair_similarities(relation, view, cap=1)(nodes, row, partner)
    different = nodes[row] != partner
    expected = relation.on(view)(nodes)[row, partner]
    assert torch.equal(found[different], expected[different])


def test_no_pairs_have_no_similarities() -> None:
    view = TrainingView.of(small_graph(20))
    nothing = torch.zeros(0, dtype=torch.int64)
    for relation in (Link(), Jaccard(), Topology()):
        assert topk_pair_similarities(relation, view, cap=1)(nothing, nothing, nothing).shape == (
            0,
        )
