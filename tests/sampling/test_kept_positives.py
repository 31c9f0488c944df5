"""Positives in the relation store: what names them, and what happens when they are damaged."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from strategies import make_view

from xtcl.config import SamplerConfig
from xtcl.relations.store import key
from xtcl.relations.store.key import name_of
from xtcl.relations.store.relation_store import RelationStore, StoreEntry
from xtcl.sampling.folds import label_folds
from xtcl.sampling.positives import describe_positives
from xtcl.sampling.xgsampler import XGSampler


def fitted(
    store: RelationStore | None = None,
    seed: int = 0,
    sweeps: int = 4,
    cap: int | None = None,
    index_past: int | None = None,
) -> XGSampler:
    view = make_view(50, 2)
    folds = label_folds(view, None, 3, np.random.default_rng(0))
    settings = SamplerConfig((0.7,), sweeps=sweeps, cap=cap, index_past=index_past)
    return XGSampler("paper", settings, seed=seed, store=store).fit(view, folds)


@pytest.mark.parametrize("cap", [None, 4])
def test_places_and_empty_places_come_back(cap: int | None, tmp_path: Path) -> None:
    """With more places than candidates some rows are not full, and scores do not rise."""
    store = RelationStore(tmp_path)
    expected = fitted(cap=cap).positives(49)
    assert not expected.filled.all()
    for _ in range(2):
        found = fitted(store, cap=cap).positives(49)
        np.testing.assert_array_equal(found.nodes, expected.nodes)
        np.testing.assert_array_equal(found.scores, expected.scores)
    assert [entry.parameters["number"] for entry in _kept(store)] == [49]


def test_whatever_decides_positives_is_in_their_name() -> None:
    first = fitted()
    links = first.view_.adjacency
    others = [
        (fitted(), 6, links),
        (fitted(), 5, None),
        (fitted(seed=1), 6, None),
        (fitted(sweeps=1), 6, None),
        (fitted(cap=49), 6, None),
        (fitted(cap=50), 6, None),  # the same positives, but who is to know
        (fitted(cap=49, index_past=1000), 6, None),
    ]
    known = {name_of(describe_positives(first, 6, None))}
    assert name_of(describe_positives(fitted(), 6, None)) in known
    for sampler, number, unwanted in others:
        name = name_of(describe_positives(sampler, number, unwanted))
        assert name not in known
        known.add(name)


def test_code_of_relations_and_of_the_sampler_is_in_their_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(key, "code_digest", lambda *packages: " and ".join(packages))
    described = describe_positives(fitted(), 6, None)
    assert described["code"] == "xtcl.relations and xtcl.sampling"


def test_damaged_positives_are_set_aside_and_sought_again(tmp_path: Path) -> None:
    store = RelationStore(tmp_path)
    expected = fitted(store).positives(6)
    (kept,) = _kept(store)
    path = tmp_path / kept.file
    content = bytearray(path.read_bytes())
    content[20] ^= 255
    path.write_bytes(bytes(content))
    with pytest.warns(UserWarning, match="is damaged"):
        found = fitted(store).positives(6)
    np.testing.assert_array_equal(found.nodes, expected.nodes)
    assert path.with_name(path.name + ".damaged").exists()
    assert [entry.file for entry in _kept(store)] == [kept.file]


def _kept(store: RelationStore) -> list[StoreEntry]:
    return [entry for entry in store.listing() if entry.relation == "positives"]
