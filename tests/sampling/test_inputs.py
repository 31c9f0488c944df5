"""The sampler on labels and pairs of one's own, against a fit of XTCL and against counting."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from dense import all_rows
from small_runs import small_graph, small_model
from strategies import make_graph, make_view

from xtcl.config import SamplerConfig
from xtcl.errors import DataError, UsageError
from xtcl.graph.graph import Graph
from xtcl.graph.splits import NodeSplit, link_split
from xtcl.relations.registry import resolve_relations
from xtcl.relations.thresholds import thresholds
from xtcl.relations.view import TrainingView
from xtcl.sampling.folds import label_folds
from xtcl.sampling.xgsampler import XGSampler

GRAPH = small_graph()
assert GRAPH.labels is not None
LABELS: np.ndarray = GRAPH.labels
TRAIN = np.arange(0, 80, 2)
MASKED = np.where(np.arange(80) % 2 == 0, LABELS, -1)


def outcome(sampler: XGSampler) -> tuple[Any, ...]:
    found = sampler.positives(4)
    counts = sampler.counts_
    return (
        sampler.relation_weights_,
        *(array.tobytes() for array in (counts.codes, counts.counts, found.nodes, found.scores)),
    )


@pytest.mark.parametrize("train", [TRAIN, TRAIN[LABELS[TRAIN] != 1]], ids=["all", "two classes"])
@pytest.mark.parametrize("crossfit", [5, 0])
def test_the_fit_is_that_of_xtcl_with_the_same_labels(crossfit: int, train: np.ndarray) -> None:
    model = small_model(epochs=1, random_state=3)
    recipe = dataclasses.replace(model.fit(GRAPH).recipe_, crossfit=crossfit)
    model.set_params(recipe=recipe).fit(GRAPH, NodeSplit(train, np.arange(0)))
    labels = np.full(80, -1)
    labels[train] = LABELS[train]
    sampler = XGSampler(settings=recipe.sampler, crossfit=crossfit, random_state=3)
    assert outcome(sampler.fit(GRAPH, labels)) == outcome(model.sampler_)


def given_graphs() -> dict[str, Callable[[], tuple[Any, Any]]]:
    """The same data in every form that is taken, and labels where the form has none."""
    data = GRAPH.to_pyg()
    masked = GRAPH.to_pyg()
    masked.train_mask = torch.arange(80) % 2 == 0
    known = GRAPH.with_labels(MASKED)
    values = np.array(["a", "b", "c", None], dtype=object)[MASKED]
    return {
        "labels of the graph": lambda: (known, None),
        "codes": lambda: (GRAPH, MASKED),
        "NaN": lambda: (GRAPH, np.where(MASKED < 0, np.nan, MASKED)),
        "None": lambda: (GRAPH, values),
        "list": lambda: (GRAPH, values.tolist()),
        "graph without labels": lambda: (
            dataclasses.replace(GRAPH, labels=None, classes=()),
            values,
        ),
        "PyG": lambda: (data, torch.from_numpy(MASKED)),
        "PyG with a mask": lambda: (masked, None),
        "PyG with a mask and labels": lambda: (masked, MASKED),
        "NetworkX": lambda: (known.to_networkx(), None),
        "mask": lambda: (GRAPH, np.arange(80) % 2 == 0),
        "list of booleans": lambda: (GRAPH, (np.arange(80) % 2 == 0).tolist()),
        "PyG and a mask": lambda: (data, torch.arange(80) % 2 == 0),
        "split": lambda: (GRAPH, NodeSplit(TRAIN, np.arange(1, 80, 2))),
        "view and a split": lambda: (
            TrainingView.of(GRAPH, np.arange(80)),
            NodeSplit(TRAIN, np.arange(0)),
        ),
        "view": lambda: (TrainingView.of(GRAPH, TRAIN), None),
        "view and labels": lambda: (TrainingView.of(GRAPH), values),
    }


@pytest.mark.parametrize("form", given_graphs())
def test_every_form_of_graph_and_labels(form: str) -> None:
    sampler = XGSampler(settings=SamplerConfig((0.8,)))
    known = outcome(sampler.fit_folds(*view_and_folds()))
    assert outcome(sampler.fit(*given_graphs()[form]())) == known


def view_and_folds() -> tuple[TrainingView, Any]:
    view = TrainingView.of(GRAPH, TRAIN)
    return view, label_folds(view, None, 5, np.random.default_rng([0, 0]))


def test_a_scipy_matrix() -> None:
    bare = Graph.from_arrays(edges=GRAPH.edges, num_nodes=80)
    relations = ["link", "jaccard", "label-distribution"]
    ours = XGSampler(relations).fit(sp.csr_matrix(GRAPH.adjacency), MASKED)
    assert outcome(ours) == outcome(XGSampler(relations).fit(bare, MASKED))


def test_the_old_call_works_with_a_warning() -> None:
    view, folds = view_and_folds()
    done: list[int] = []
    with pytest.warns(DeprecationWarning, match=r"called fit_folds\(view, folds\) now"):
        old = XGSampler().fit(view, folds, done.append)
    assert outcome(old) == outcome(XGSampler().fit_folds(view, folds))
    assert done == [1] * 5


def counted(view: TrainingView, settings: SamplerConfig, pairs: Any) -> dict[Any, int]:
    """How often each pattern occurs among pairs (u, v, I_t), from whole matrices."""
    code = np.zeros((view.num_nodes, view.num_nodes), dtype=int)
    everyone = torch.arange(view.num_nodes)
    for place, relation in enumerate(resolve_relations("paper")):
        s = all_rows(relation, view)
        eta = thresholds(torch.from_numpy(s), everyone, settings.quantiles).numpy()
        level = ((s[:, :, None] >= eta[:, None, :]) & (s[:, :, None] > 0)).sum(axis=2)
        code += level * (len(settings.quantiles) + 1) ** place
    found: dict[Any, int] = {}
    for u, v, alike in pairs:
        key = int(code[u, v]), bool(alike)
        found[key] = found.get(key, 0) + 1
    return found


@pytest.mark.parametrize("block_rows", [None, 1, 5])
@pytest.mark.parametrize("quantiles", [(0.7,), (0.5, 0.9)])
def test_pairs_are_counted_as_they_are_given(
    quantiles: tuple[float, ...], block_rows: int | None
) -> None:
    view, settings = make_view(30, 3), SamplerConfig(quantiles)
    rng = np.random.default_rng(0)
    pairs = rng.integers(30, size=(2, 200))
    pairs = np.unique(pairs[:, pairs[0] != pairs[1]], axis=1)
    alike = np.asarray(rng.random(pairs.shape[1]) < 0.3)
    sampler = XGSampler(settings=settings, block_rows=block_rows)
    order = rng.permutation(np.repeat(np.arange(pairs.shape[1]), 2))  # each twice, in any order
    sampler.fit(view, pairs=pairs[:, order], alike=alike[order].astype(int))
    counts = sampler.counts_
    found = {
        (int(code), bool(y)): int(counts.counts[at, y])
        for at, code in enumerate(counts.codes)
        for y in (0, 1)
        if counts.counts[at, y]
    }
    assert found == counted(view, settings, zip(*pairs.tolist(), alike.tolist(), strict=True))


def test_pairs_read_labels_only_where_the_graph_has_them() -> None:
    labelled = make_graph(30, 0)
    bare = dataclasses.replace(labelled, labels=None, classes=())
    given: dict[str, Any] = {"pairs": [[0, 1, 2, 3], [4, 5, 6, 7]], "alike": [True, False, True, 0]}
    with_labels, without = (XGSampler().fit(graph, **given) for graph in (labelled, bare))
    assert with_labels.left_out_ == {}
    assert set(without.left_out_) == {"label-distribution", "attribute-label-distribution"}
    again = XGSampler().fit(bare, labelled.labels, **given)
    assert again.relation_weights_ == with_labels.relation_weights_


def test_booleans_are_classes_of_a_graph_without_labels() -> None:
    two = LABELS == 1
    assert outcome(XGSampler().fit(BARE, two)) == outcome(XGSampler().fit(BARE, two.astype(int)))


BARE = dataclasses.replace(GRAPH, labels=None, classes=())
PAIRS = [[0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: XGSampler().fit(BARE), r"the graph has none: give fit\(graph, labels\)"),
        (lambda: XGSampler().fit(GRAPH, [None] * 80), "the graph has none"),
        (lambda: XGSampler().fit(GRAPH, LABELS[:9]), "9 labels for 80 nodes"),
        (lambda: XGSampler().fit(GRAPH, LABELS[:9] > 0), r"a mask \[80\]"),
        (lambda: XGSampler().fit(GRAPH, link_split(GRAPH)), "a split has none"),
        (lambda: XGSampler().fit(BARE, NodeSplit(TRAIN, np.arange(0))), "a split has none"),
        (lambda: XGSampler().fit(GRAPH, NodeSplit(np.array([80]), np.arange(0))), "from 0 to 79"),
        (lambda: XGSampler(crossfit=1).fit(GRAPH), "crossfit=1 must be 0"),
        (lambda: XGSampler().fit(GRAPH, pairs=PAIRS), "pairs= and alike= go together"),
        (lambda: XGSampler().fit(GRAPH, alike=[1]), "pairs= and alike= go together"),
        (lambda: XGSampler().fit(GRAPH, pairs=PAIRS, alike=[1, 0]), "each of the 3 pairs"),
        (lambda: XGSampler().fit(GRAPH, pairs=PAIRS, alike=[1, 0, 2]), "each of the 3 pairs"),
        (lambda: XGSampler().fit(GRAPH, pairs=[[0], [80]], alike=[1]), "from 0 to 79"),
        (lambda: XGSampler().fit(GRAPH, pairs=[[], []], alike=[]), "got none"),
        (lambda: XGSampler().fit(GRAPH, pairs=[[7], [7]], alike=[1]), "node 7 with itself"),
        (lambda: XGSampler().fit(GRAPH, pairs=[[1, 1], [2, 2]], alike=[1, 0]), r"pair \(1, 2\)"),
        (
            lambda: XGSampler(settings=SamplerConfig(self_pairs=True)).fit(
                GRAPH, pairs=PAIRS, alike=[1, 0, 1]
            ),
            "self_pairs=True",
        ),
    ],
)
def test_what_cannot_be_learned_from_is_refused(call: Callable[[], object], said: str) -> None:
    with pytest.raises((DataError, UsageError), match=rf"{said}.*\.$"):
        call()
