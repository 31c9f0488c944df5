from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import load, save
from sklearn.linear_model import LogisticRegression

from xtcl.errors import DataError, UsageError
from xtcl.tasks import link_head
from xtcl.tasks.link_head import LINK_SCORERS, LinkHead, fit_link_head
from xtcl.tasks.metrics import auc

Floats = NDArray[np.float64]
Pairs = NDArray[np.int64]


def probability(head: LinkHead, z: Floats, pairs: Any) -> Floats:
    """The chance of a link that a head's log-odds stand for."""
    factor, plus = head.log_odds_
    return np.asarray(1 / (1 + np.exp(-(factor * head.score(z, pairs) + plus))))


def communities(
    n: int = 60, d: int = 8, seed: int = 0
) -> tuple[Floats, tuple[Pairs, Pairs], tuple[Pairs, Pairs]]:
    """Rows of which half the columns say who is linked; pairs to train on and pairs to test."""
    rng = np.random.default_rng(seed)
    group = rng.integers(3, size=n)
    z = rng.normal(size=(n, d))
    z[:, : d // 2] += 2.0 * rng.normal(size=(3, d // 2))[group]
    pairs = np.stack(np.triu_indices(n, k=1))
    pairs = pairs[:, rng.permutation(pairs.shape[1])]
    linked = group[pairs[0]] == group[pairs[1]]
    links, others = pairs[:, linked], pairs[:, ~linked]
    return z, (links[:, :100], others[:, :120]), (links[:, 100:180], others[:, 120:200])


def unit(row: Floats) -> Floats:
    length = float(np.sqrt((row**2).sum()))
    return row / length if length else row


def score_by_loops(head: LinkHead, z: Floats, pairs: Pairs) -> list[float]:
    found = []
    for u, v in pairs.T:
        if head.kind == "inner":
            found.append(float(z[u] @ z[v]))
        elif head.kind == "cosine":
            found.append(float(unit(z[u]) @ unit(z[v])))
        else:
            found.append(float((unit(z[u]) * unit(z[v])) @ head.weight_ + head.bias_))
    return found


@pytest.mark.parametrize("kind", LINK_SCORERS)
def test_scores_are_the_formula(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    z, train, (pairs, _) = communities()
    z[pairs[0, 0]] = 0.0
    head = fit_link_head(kind, z, *train)
    whole = head.score(z, pairs)
    assert whole.dtype == np.float64
    np.testing.assert_allclose(whole, score_by_loops(head, z, pairs), rtol=1e-12, atol=1e-12)
    monkeypatch.setattr(link_head, "_PAIRS_BLOCK", 3 * z.shape[1])
    np.testing.assert_array_equal(head.score(z, pairs), whole)
    np.testing.assert_array_equal(head.score(z, pairs[::-1]), whole)
    assert head.score(z, np.empty((2, 0), dtype=int)).shape == (0,)


def test_hadamard_is_a_logistic_regression_on_products() -> None:
    z, (links, others), (test, _) = communities()
    head = fit_link_head("hadamard", z, links, others, Cs=[5.0])
    pairs = np.hstack([links, others])
    features = np.array([unit(z[u]) * unit(z[v]) for u, v in pairs.T])
    labels = np.repeat([1, 0], [links.shape[1], others.shape[1]])
    spread = features - features.mean(axis=0)
    scale = np.sqrt((spread**2).sum(axis=1).mean())
    # Two columns of weights under one penalty are one column at twice the C.
    oracle = LogisticRegression(C=10.0, solver="newton-cholesky", tol=1e-12).fit(
        spread / scale, labels
    )
    held = np.array([unit(z[u]) * unit(z[v]) for u, v in test.T])
    expected = oracle.predict_proba((held - features.mean(axis=0)) / scale)[:, 1]
    np.testing.assert_allclose(probability(head, z, test), expected, atol=1e-7)
    assert head.C_ == 5.0


@pytest.mark.parametrize("kind", LINK_SCORERS)
def test_probabilities_are_calibrated_and_rank_like_scores(kind: str) -> None:
    z, (links, others), (test, _) = communities()
    head = fit_link_head(kind, z, links, others)
    chance = probability(head, z, np.hstack([links, others]))
    # The unpenalised intercept makes the mean probability the share of links.
    assert chance.mean() == pytest.approx(100 / 220, abs=1e-6)
    order = np.argsort(head.score(z, test), kind="stable")
    assert (np.diff(probability(head, z, test)[order]) >= 0).all()


def test_validation_links_choose_the_c() -> None:
    z, train, valid = communities(seed=3)
    Cs = [0.01, 0.1, 1.0, 10.0, 1000.0]
    found = fit_link_head("hadamard", z, *train, Cs=Cs, validation=valid)
    aucs = []
    for C in Cs:
        head = fit_link_head("hadamard", z, *train, Cs=[C])
        aucs.append(auc(head.score(z, valid[0]), head.score(z, valid[1])))
    assert len(set(aucs)) > 1
    assert Cs[int(np.argmax(aucs))] == found.C_


@pytest.mark.parametrize("kind", LINK_SCORERS)
@pytest.mark.parametrize("value", [0.0, 0.3])
def test_an_embedding_that_says_nothing_gives_the_share_of_links(kind: str, value: float) -> None:
    _, (links, others), _ = communities()
    z = np.full((60, 3), value)
    head = fit_link_head(kind, z, links, others)
    np.testing.assert_allclose(probability(head, z, links), 100 / 220, rtol=1e-9)


@pytest.mark.parametrize("kind", LINK_SCORERS)
def test_one_pair_of_each_side_is_enough(kind: str) -> None:
    z = np.array([[1.0, 0.2], [0.9, 0.1], [-1.0, 0.3]])
    head = fit_link_head(kind, z, [[0], [1]], [[0], [2]])
    linked, apart = probability(head, z, [[0, 0], [1, 2]])
    assert linked > 0.5 > apart


def test_the_subsample_is_drawn_by_the_seed() -> None:
    z, (links, others), _ = communities()
    same = [fit_link_head("inner", z, links, others, max_pairs=40, seed=1) for _ in range(2)]
    other = fit_link_head("inner", z, links, others, max_pairs=40, seed=2)
    assert same[0].bias_ == same[1].bias_ != other.bias_
    chance = probability(same[0], z, np.hstack([links, others]))
    assert abs(chance.mean() - 0.5) < 0.15  # 20 of each side
    whole = fit_link_head("inner", z, links, others, max_pairs=240, seed=1)
    assert whole.bias_ == fit_link_head("inner", z, links, others, seed=9).bias_


@pytest.mark.parametrize("kind", LINK_SCORERS)
def test_a_head_survives_a_safetensors_file(kind: str) -> None:
    z, train, (pairs, _) = communities()
    head = fit_link_head(kind, z, *train)
    loaded = LinkHead.from_tensors(load(save(head.to_tensors())))
    assert loaded.kind == kind
    assert loaded.C_ == head.C_
    np.testing.assert_array_equal(probability(loaded, z, pairs), probability(head, z, pairs))
    arrays = head.to_tensors()
    arrays["strength"] = arrays.pop("C")  # its name in earlier versions
    assert LinkHead.from_tensors(load(save(arrays))).C_ == head.C_


def test_bad_data_are_named() -> None:
    z, (links, others), _ = communities()
    nobody = np.empty((2, 0), dtype=int)
    with pytest.raises(DataError, match="no links to fit"):
        fit_link_head("cosine", z, nobody, others)
    with pytest.raises(DataError, match="no non-links to fit"):
        fit_link_head("cosine", z, links, nobody)
    with pytest.raises(DataError, match=r"Pairs 1 name a node.*from 0 to 59"):
        fit_link_head("cosine", z, [[0, 1], [2, 60]], others)
    with pytest.raises(DataError, match=r"shape \(2, n\)"):
        fit_link_head("cosine", z, links.T, others)
    head = fit_link_head("hadamard", z, links, others)
    with pytest.raises(DataError, match="3 columns, but the head was fitted on 8"):
        head.score(z[:, :3], links)
    with pytest.raises(DataError, match="lacks 'bias'"):
        LinkHead.from_tensors({k: v for k, v in head.to_tensors().items() if k != "bias"})
    z[5] = np.inf
    with pytest.raises(DataError, match="not finite, in rows 5"):
        head.score(z, links)


def test_bad_parameters_are_named() -> None:
    z, train, _ = communities()
    with pytest.raises(UsageError, match="no link scorer named 'dot'; use one of cosine, inner"):
        fit_link_head("dot", z, *train)
    with pytest.raises(UsageError, match="max_pairs leaves 0 non-links"):
        fit_link_head("cosine", z, *train, max_pairs=1)
