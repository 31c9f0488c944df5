from __future__ import annotations

import sys

import numpy as np
import pytest
import torch
from dense import all_rows

from xtcl.errors import DataError, NotFittedError, UsageError
from xtcl.graph.datasets.synthetic import block_model
from xtcl.graph.graph import Graph
from xtcl.lab.methods.naive_xgboost import NaiveXGBoost, boost, labelled_pairs, pair_table
from xtcl.relations.registry import make_relation, resolve_relations
from xtcl.relations.relation import Relation, SimilarityRows
from xtcl.relations.view import TrainingView
from xtcl.sampling.folds import Fold, label_folds
from xtcl.sampling.stumps import fit_stumps

RELATIONS = ("link", "attribute-similarity", "pagerank")


def planted(num_nodes: int = 90) -> tuple[Graph, TrainingView]:
    graph = block_model(num_nodes, num_classes=3, num_attributes=24, seed=0)
    return graph, TrainingView.of(graph, np.arange(0, num_nodes, 2))


def same_class(view: TrainingView, folds: int = 0) -> list[Fold]:
    labels = view.labels
    return label_folds(
        view, lambda u, v: labels[u][:, None] == labels[v], folds, np.random.default_rng(0)
    )


@pytest.mark.parametrize("folds", [0, 3])
def test_the_pairs_are_all_labelled_ones(folds: int) -> None:
    graph, view = planted()
    assert graph.labels is not None
    relations = [make_relation(name) for name in RELATIONS]
    for fold in same_class(view, folds):
        matrices = [all_rows(relation, fold.view) for relation in relations]
        expected = [
            ([matrix[u, v] for matrix in matrices], graph.labels[u] == graph.labels[v])
            for u in fold.queries
            for v in fold.candidates
            if u != v
        ]
        values, alike = labelled_pairs(relations, fold)
        assert np.array_equal(values, np.array([row for row, _ in expected], np.float32))
        assert alike.tolist() == [bool(answer) for _, answer in expected]


def test_it_boosts_stumps_one_for_each_relation() -> None:
    pytest.importorskip("xgboost")
    _, view = planted()
    fitted = NaiveXGBoost(threads=1).fit(view, same_class(view))
    assert len(fitted.relations_) == 9
    trees = fitted.booster_.get_dump()
    assert len(trees) == 9
    for tree in trees:
        assert tree.count("leaf") == 2


def test_on_one_bit_it_learns_the_weights_of_our_stumps() -> None:
    """From the log-odds of the prior, where XGBoost starts by itself."""
    pytest.importorskip("xgboost")
    rng = np.random.default_rng(0)
    bit = (rng.random(5000) < 0.1).astype(np.int64)
    alike = rng.random(5000) < 0.2 + 0.5 * bit
    counts = np.array([[np.sum((bit == b) & (alike == a)) for a in (0, 1)] for b in (0, 1)])
    prior = float(np.log(alike.mean() / (1 - alike.mean())))
    ours = fit_stumps(np.array([[0], [1]]), counts, num_levels=2, order=[0], base=prior)
    booster = boost(pair_table(bit[:, None].astype(np.float32), alike, threads=1), threads=1)
    theirs = booster.inplace_predict(np.array([[0.0], [1.0]], np.float32), predict_type="margin")
    assert theirs == pytest.approx(ours.margins(np.array([[0], [1]])), abs=1e-3)


def test_scores_rank_pairs_of_a_class_first() -> None:
    pytest.importorskip("xgboost")
    graph, view = planted()
    assert graph.labels is not None
    fitted = NaiveXGBoost(RELATIONS, threads=1).fit(view, same_class(view))
    held_out = torch.arange(1, 90, 2)
    scores = fitted.scores(held_out)
    assert scores.shape == (45, 90)
    assert scores.dtype == np.float32
    alike = graph.labels[held_out.numpy()][:, None] == graph.labels
    different = held_out.numpy()[:, None] != np.arange(90)
    assert scores[alike & different].mean() > 1.2 * scores[~alike].mean()
    assert np.array_equal(fitted.scores(held_out[3:5]), scores[3:5])


def test_what_scores_need_is_not_prepared_by_the_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fit is timed; its folds have views of their own."""
    pytest.importorskip("xgboost")
    _, view = planted()
    relation = make_relation("pagerank")
    seen: list[TrainingView] = []
    kind, usual = type(relation), type(relation).on

    def on(self: Relation, view: TrainingView) -> SimilarityRows:
        seen.append(view)
        return usual(self, view)

    monkeypatch.setattr(kind, "on", on)
    fitted = NaiveXGBoost([relation], threads=1).fit(view, same_class(view, folds=3))
    assert len(seen) == 3
    assert all(each is not view for each in seen)
    fitted.scores(torch.arange(2))
    assert seen[-1] is view


def test_folds_are_learned_together() -> None:
    pytest.importorskip("xgboost")
    _, view = planted()
    folds = same_class(view, folds=3)
    fitted = NaiveXGBoost(RELATIONS, threads=1).fit(view, folds)
    parts = [labelled_pairs(resolve_relations(RELATIONS), fold) for fold in folds]
    values, alike = (np.concatenate(part) for part in zip(*parts, strict=True))
    alone = boost(pair_table(values, alike, threads=1), threads=1)
    assert fitted.booster_.get_dump() == alone.get_dump()


def test_relations_without_data_are_left_out() -> None:
    pytest.importorskip("xgboost")
    graph = block_model(40, num_classes=2, seed=0).with_edges(np.zeros((2, 0), dtype=np.int64))
    view = TrainingView.of(graph, np.arange(40))
    fitted = NaiveXGBoost(threads=1).fit(view, same_class(view))
    assert [relation.name for relation in fitted.relations_] == ["attribute-similarity"]
    with pytest.raises(DataError, match="None of the relations link can be computed"):
        NaiveXGBoost("link").fit(view, same_class(view))


def test_without_xgboost_a_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    _, view = planted()
    monkeypatch.setitem(sys.modules, "xgboost", None)
    with pytest.raises(UsageError, match=r'pip install "xtcl\[bench\]"'):
        NaiveXGBoost().fit(view, same_class(view))


def test_misuse_is_named() -> None:
    pytest.importorskip("xgboost")
    _, view = planted()
    with pytest.raises(UsageError, match="at least one fold"):
        NaiveXGBoost().fit(view, [])
    with pytest.raises(NotFittedError, match="call fit first"):
        NaiveXGBoost().scores(torch.arange(2))
