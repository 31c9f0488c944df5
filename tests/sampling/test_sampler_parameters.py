"""The parameters of the sampler: what cannot be used is a sentence; seeds and stores as of XTCL."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from small_runs import small_graph

from xtcl.errors import UsageError
from xtcl.relations.store.relation_store import RelationStore
from xtcl.sampling.xgsampler import XGSampler

GRAPH = small_graph()
FITTED = XGSampler().fit(GRAPH)
# Without a type, for what mypy would refuse.
ANY: Any = XGSampler
FITTED_ANY: Any = FITTED


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: FITTED_ANY.positives("a"), "number='a' must be a whole number of at least 1"),
        (lambda: FITTED_ANY.positives(2.5), "number=2.5 must be"),
        (lambda: FITTED_ANY.positives(0), "number=0 must be"),
        (lambda: FITTED_ANY.positives(2, hops="a"), "hops='a' must be"),
        (lambda: FITTED_ANY.positives(2, hops=1.5), "hops=1.5 must be"),
        (
            lambda: FITTED_ANY.positives(3, exclude=np.zeros((3, 3))),
            r"exclude must be a sparse matrix of shape \[80, 80\], .* ndarray of shape \[3, 3\]",
        ),
        (
            lambda: FITTED_ANY.positives(3, exclude=sp.eye_array(3)),
            "exclude must be a sparse matrix",
        ),
        (lambda: FITTED_ANY.explain("a", 1), "Node 'a' does not exist"),
        (lambda: FITTED_ANY.explain(1, 0.5), "Node 0.5 does not exist"),
        (lambda: ANY(random_state="a").fit(GRAPH), "random_state=a must be a whole number"),
        (lambda: ANY(random_state=-1).fit(GRAPH), "random_state=-1 must be"),
        (lambda: ANY(settings="paper").fit(GRAPH), "settings='paper' must be a Sampler"),
        (lambda: ANY(settings={}).fit(GRAPH), "settings={} must be a SamplerConfig"),
        (lambda: ANY(store=3).fit(GRAPH), "store=3 must be a folder"),
        (lambda: ANY(block_rows="a").fit(GRAPH), "block_rows='a' must be a whole number"),
        (lambda: ANY(crossfit="a").fit(GRAPH), "crossfit='a' must be a whole number"),
        (lambda: ANY(relations=None).fit(GRAPH), "relations=None must be a name"),
        (lambda: ANY(relations=3).fit(GRAPH), "relations=3 must be a name"),
    ],
)
def test_what_the_sampler_cannot_use_is_a_sentence(call: Callable[[], object], said: str) -> None:
    with pytest.raises(UsageError, match=rf"{said}.*\.$"):
        call()


def test_any_sparse_matrix_may_exclude_pairs() -> None:
    some = sp.coo_array(np.eye(80, k=1, dtype=np.float32))
    ours = FITTED_ANY.positives(3, exclude=some).nodes
    np.testing.assert_array_equal(ours, FITTED.positives(3, exclude=sp.csr_array(some)).nodes)


def test_a_random_state_as_for_xtcl() -> None:
    known = XGSampler(random_state=7).fit(GRAPH)
    assert known.random_state_ == 7
    drawn = XGSampler(random_state=np.random.RandomState(1)).fit(GRAPH).random_state_
    assert drawn == XGSampler(random_state=np.random.RandomState(1)).fit(GRAPH).random_state_
    seed = XGSampler(random_state=None).fit(GRAPH).random_state_
    assert 0 <= seed < 2**32
    with pytest.warns(DeprecationWarning, match="'seed' is called 'random_state' now"):
        old = ANY(seed=7)
    with pytest.warns(DeprecationWarning, match=r"XGSampler\.seed is called random_state now"):
        assert old.seed == 7
    assert clone(old).get_params() == old.get_params() == known.get_params()
    np.testing.assert_array_equal(old.fit(GRAPH).positives(4).nodes, known.positives(4).nodes)


def test_the_store_may_be_a_folder(tmp_path: Path) -> None:
    stored = XGSampler(store=tmp_path / "store").fit(GRAPH).positives(4)
    np.testing.assert_array_equal(stored.nodes, FITTED.positives(4).nodes)
    store = RelationStore(tmp_path / "store")
    assert {entry.relation for entry in store.listing()} >= {"positives", "pagerank"}
    again = XGSampler(store=str(tmp_path / "store")).fit(GRAPH).positives(4)
    np.testing.assert_array_equal(again.nodes, stored.nodes)
