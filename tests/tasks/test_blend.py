"""Heads that answer together, against a weighted mean by hand, and what a file may not say."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch
from answer_runs import FIRST, tables, write_rows
from safetensors.numpy import load, load_file, save, save_file
from small_blends import (
    ENCODERS,
    WIDTHS,
    by_hand,
    choice_of,
    equal_weights,
    hidden_recipe,
    linear_scores,
    made_up,
    member,
    mixed_by_hand,
    rows_of,
    training_graph,
)
from small_runs import small_graph
from torch import Tensor, nn

from xtcl.config import EncoderConfig, EnsembleConfig
from xtcl.errors import DataError
from xtcl.estimator import XTCL
from xtcl.graph.splits import node_split
from xtcl.graph.subgraph import with_nodes
from xtcl.graph.tables.read import read_spec
from xtcl.graph.tables.spec import TableSpec
from xtcl.nn.encoder import encoder_inputs
from xtcl.nn.ensemble import HOPS, EncoderEnsemble
from xtcl.nn.functional import normalize
from xtcl.runs.model_files import description_digest, file_digest
from xtcl.sampling.xgsampler import XGSampler
from xtcl.tasks import blend as module
from xtcl.tasks import trees as trees_module
from xtcl.tasks.blend import (
    ATTRIBUTE_BLOCKS,
    NUM_DIRECTIONS,
    Blend,
    BlendedHead,
    HeadRows,
    LinearMember,
    TreesMember,
    class_probabilities_of,
    column_blocks,
    columns_of,
    read_node_head,
)
from xtcl.tasks.hidden_labels import fit_blend
from xtcl.tasks.logistic import fit_logistic
from xtcl.tasks.node_classification import NodeClassification
from xtcl.tasks.results import NodePredictions
from xtcl.tasks.task import Selected
from xtcl.tasks.training_data import TrainingData
from xtcl.tasks.trees import fit_trees, tree_columns

GRAPH = training_graph()
FITTED = made_up(GRAPH)
ROWS = rows_of(GRAPH, FITTED)
NUM_CLASSES = GRAPH.num_classes
EVERY = slice(None)

Tensors = dict[str, np.ndarray]


@cache
def head() -> BlendedHead:
    """A fitted blend of heads of each kind; not to be changed."""
    return fit_blend(TrainingData(GRAPH), FITTED, choice_of(GRAPH, FITTED), 1.0, seed=0)


def place_of(kind: type[LinearMember | TreesMember]) -> int:
    return next(at for at, each in enumerate(head().members) if isinstance(each, kind))


# Blocks of columns.


class Fixed(nn.Module):
    """An encoder whose embedding is given."""

    def __init__(self, part: Tensor) -> None:
        super().__init__()
        self.part = part

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.part


def block_of(encoder: EncoderConfig) -> str:
    if encoder.messages == "likely":
        return "likely"
    return "learned" if encoder.positives is None else encoder.positives


@pytest.mark.parametrize("attributes", [0.0, 0.7])
@pytest.mark.parametrize("count", [2, len(ENCODERS)])
def test_blocks_are_where_the_ensemble_writes_them(count: int, attributes: float) -> None:
    graph = small_graph(30)
    x, edge_index = encoder_inputs(graph, torch.device("cpu"))
    parts = [torch.randn(30, width, generator=torch.manual_seed(width)) for width in WIDTHS[:count]]
    configs = tuple(replace(each, weight=0.5 + at) for at, each in enumerate(ENCODERS[:count]))
    weights = [each.weight for each in configs]
    written = EncoderEnsemble(map(Fixed, parts), weights, attributes)(x, edge_index)
    ensemble = EnsembleConfig(configs, attributes)
    blocks = column_blocks(ensemble, WIDTHS[:count], graph.num_attributes)

    of_block: dict[str, list[Tensor]] = {}
    for config, part in zip(configs, parts, strict=True):
        of_block.setdefault(block_of(config), []).append(config.weight * normalize(part))
    if attributes:
        smoothing = EncoderEnsemble([Fixed(parts[0])], [1.0], attributes)
        skipped = smoothing(x, edge_index)[:, WIDTHS[0] :]
        for name, smoothed in zip(ATTRIBUTE_BLOCKS, skipped.chunk(len(HOPS), dim=1), strict=True):
            of_block[name] = [smoothed]
    assert list(blocks) == list(of_block)
    for name, ranges in blocks.items():
        torch.testing.assert_close(columns_of(written, ranges), torch.cat(of_block[name], dim=1))
    covered = sorted(column for each in blocks.values() for r in each for column in range(*r))
    assert covered == list(range(written.shape[1]))


def test_columns_are_those_of_the_ranges_in_their_order() -> None:
    z = torch.arange(24).reshape(2, 12)
    for ranges in (((3, 5),), ((8, 12), (0, 1), (4, 6))):
        expected = [[int(row[c]) for start, end in ranges for c in range(start, end)] for row in z]
        assert columns_of(z, ranges).tolist() == expected


def test_columns_that_the_embedding_has_not_are_refused() -> None:
    for ranges in (((3, 13),), ((0, 2), (12, 14))):
        with pytest.raises(DataError, match=r"reads column 1[34] of an embedding that has 12; .*"):
            columns_of(torch.zeros(2, 12), ranges)


# What the heads answer.


def test_probabilities_are_the_weighted_mean_of_the_members() -> None:
    blend = head()
    assert {type(each) for each in blend.members} == {LinearMember, TreesMember}
    found = blend.probabilities(ROWS, NUM_CLASSES)(EVERY)
    np.testing.assert_allclose(found, mixed_by_hand(blend, ROWS, NUM_CLASSES), atol=1e-6)
    np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-12)
    one = by_hand(blend.members[0], ROWS, NUM_CLASSES)
    assert np.abs(found - one).max() > 0.01


def test_each_member_answers_by_its_formula() -> None:
    for each in head().members:
        found = each.probabilities(ROWS, NUM_CLASSES)(EVERY)
        np.testing.assert_allclose(found, by_hand(each, ROWS, NUM_CLASSES), atol=1e-6)


def test_slices_have_the_rows_of_the_whole() -> None:
    compute = head().probabilities(ROWS, NUM_CLASSES)
    whole = compute(EVERY)
    for part in (slice(0, 7), slice(7, 50), slice(59, 60)):
        np.testing.assert_allclose(compute(part), whole[part], atol=1e-12)


def test_a_class_without_a_training_label_has_no_probability() -> None:
    labels = np.where(ROWS.labels == 1, -1, ROWS.labels)
    fitted = fit_blend(
        TrainingData(GRAPH.with_labels(labels)), FITTED, choice_of(GRAPH, FITTED), 1.0, seed=0
    )
    rows = ROWS._replace(labels=labels)
    found = fitted.probabilities(rows, NUM_CLASSES)(EVERY)
    assert (found[:, 1] == 0).all()
    np.testing.assert_allclose(found, mixed_by_hand(fitted, rows, NUM_CLASSES), atol=1e-6)


def test_a_plain_head_answers_calibrated() -> None:
    known = TrainingData(GRAPH).labelled
    plain = fit_logistic(FITTED.embedding[known], ROWS.labels[known], seed=0)
    assert plain.inverse_temperature_ != 1
    found = class_probabilities_of(plain, ROWS, NUM_CLASSES)(EVERY)
    scores = linear_scores(plain, FITTED.embedding.numpy().astype(np.float64))
    exponential = np.exp(plain.inverse_temperature_ * scores)
    np.testing.assert_allclose(found, exponential / exponential.sum(axis=1, keepdims=True))
    blended = class_probabilities_of(head(), ROWS, NUM_CLASSES)(EVERY)
    np.testing.assert_array_equal(blended, head().probabilities(ROWS, NUM_CLASSES)(EVERY))


def test_trees_read_the_main_directions_beside_columns_of_their_own() -> None:
    ranges = ((0, 3), (9, 14))
    trees = TreesMember.fit(ROWS, ranges, NUM_CLASSES, seed=0)
    read = np.hstack([FITTED.embedding.numpy()[:, start:end] for start, end in ranges])
    centred = read.astype(np.float64) - read.mean(axis=0, dtype=np.float64)
    _, _, transposed = np.linalg.svd(centred, full_matrices=False)
    number = min(NUM_DIRECTIONS, *read.shape)
    assert trees.directions.shape == (read.shape[1], number)
    found = centred @ trees.directions.astype(np.float64)
    expected = centred @ transposed[:number].T
    np.testing.assert_allclose(np.abs(found), np.abs(expected), atol=1e-3)  # up to their signs
    known = np.flatnonzero(ROWS.labels >= 0)
    columns = tree_columns(GRAPH.attributes, GRAPH.adjacency, ROWS.labels, NUM_CLASSES, extra=found)
    again = fit_trees(columns[known], ROWS.labels[known], seed=0, folds=0)
    np.testing.assert_allclose(
        trees.scores(ROWS, known, NUM_CLASSES).numpy(),
        again.decision_function(columns[known]),
        atol=1e-6,
    )


def test_few_directions_are_the_largest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "NUM_DIRECTIONS", 2)
    trees = TreesMember.fit(ROWS, ((0, 20),), NUM_CLASSES, seed=0)
    read = FITTED.embedding.numpy()[:, :20].astype(np.float64)
    centred = read - read.mean(axis=0)
    found = ((centred @ trees.directions.astype(np.float64)) ** 2).sum(axis=0)
    largest = np.linalg.svd(centred, compute_uv=False)[:2] ** 2
    np.testing.assert_allclose(found, largest, rtol=0.05)


def test_with_many_attributes_means_are_of_their_main_directions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(trees_module, "NUM_ATTRIBUTE_DIRECTIONS", 2)
    trees = TreesMember.fit(ROWS, ((0, 6),), NUM_CLASSES, seed=0)
    x = sp.csr_array(GRAPH.attributes).toarray().astype(np.float64)
    _, singular, transposed = np.linalg.svd(x, full_matrices=False)
    projected = x @ trees.attribute_directions.astype(np.float64)
    np.testing.assert_allclose(np.abs(projected), np.abs(x @ transposed[:2].T), atol=1e-3)
    np.testing.assert_allclose((projected**2).sum(axis=0), singular[:2] ** 2, rtol=1e-4)
    read = trees.columns(ROWS, NUM_CLASSES).toarray()
    links = GRAPH.adjacency.toarray()
    mean = links / np.maximum(links.sum(axis=1, keepdims=True), 1)
    expected = np.hstack([x, projected, mean @ projected, mean @ mean @ projected])
    np.testing.assert_allclose(read[:, : expected.shape[1]], expected, atol=1e-5)


def test_directions_of_other_attributes_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trees_module, "NUM_ATTRIBUTE_DIRECTIONS", 2)
    trees = TreesMember.fit(ROWS, ((0, 6),), NUM_CLASSES, seed=0)
    fewer = ROWS._replace(attributes=GRAPH.attributes[:, :-1])
    assert_refused(lambda: trees.columns(fewer, NUM_CLASSES))


def test_calibrated_trees_have_their_scores_times_the_factor() -> None:
    trees = TreesMember.fit(ROWS, ((0, 6),), NUM_CLASSES, seed=0)
    nodes = np.arange(0, 60, 7)
    plain = trees.scores(ROWS, nodes, NUM_CLASSES)
    scaled = trees.calibrated(0.4).scores(ROWS, nodes, NUM_CLASSES)
    torch.testing.assert_close(scaled, 0.4 * plain)
    assert plain.abs().max() > 0.1


# The account of the choice.


def test_the_chosen_are_those_with_a_weight_the_largest_first() -> None:
    blend = choice_of(GRAPH, FITTED)
    assert [each.weight for each in blend.chosen] == [0.5, 0.3, 0.2]
    equal = replace(blend, members=tuple(each._replace(weight=0.25) for each in blend.members))
    assert equal.chosen == equal.members  # ties stay in their order


def test_sentences() -> None:
    blend = choice_of(GRAPH, FITTED)
    first, second = blend.sentences()
    named = [f"{each.name} {100 * each.weight:.0f} %" for each in blend.chosen]
    assert first == f"30 hidden labels decided, by likelihood, what predicts: {'; '.join(named)}."
    # In descending order of accuracy, and equal ones in their own.
    ranked = [blend.members[at] for at in (0, 2, 3, 1)]
    assert [each.accuracy for each in ranked] == [0.75, 0.75, 0.75, 0.4]
    alone = "; ".join(f"{each.name} {100 * each.accuracy:.1f}" for each in ranked)
    right = "Percent of the hidden labels that are right: together 80.0; alone:"
    assert second == f"{right} {alone}."


NOTHING_LEARNED = "The embedding learned by contrast has no weight here"
NOTHING_BY_LABELS = "The encoders that learned from the sampler's positives have no weight here"


@pytest.mark.parametrize(
    ("blocks", "said"),
    [
        (ATTRIBUTE_BLOCKS, NOTHING_LEARNED),
        (ATTRIBUTE_BLOCKS[:1], NOTHING_LEARNED),
        (("uniform", *ATTRIBUTE_BLOCKS), NOTHING_BY_LABELS),
        (("learned", "uniform", *ATTRIBUTE_BLOCKS), None),
        (("uniform", "likely"), None),
    ],
)
def test_a_sentence_where_something_that_was_learned_has_no_weight(
    blocks: tuple[str, ...], said: str | None
) -> None:
    only = member("logistic", blocks, 1.0)
    other = member("logistic", ("learned", *ATTRIBUTE_BLOCKS), 0.0)
    assert bool(only.encoders) is (said != NOTHING_LEARNED)
    lines = Blend((other, only), 9, 0.5, 0.7).sentences()[2:]
    assert [line.startswith(said or "") for line in lines] == ([] if said is None else [True])
    both = (other._replace(weight=0.5), only._replace(weight=0.5))
    assert len(Blend(both, 9, 0.5, 0.7).sentences()) == 2


def test_a_sentence_where_classes_have_factors() -> None:
    blend = replace(choice_of(GRAPH, FITTED), metric="macro_f1", class_factors=(1.25, 1.0, 4 / 3))
    expected = (
        "For macro F1, the class with the largest probability times its factor is predicted; "
        "factors in the order of the classes: 1.25, 1.00, 1.33."
    )
    assert blend.sentences()[2:] == [expected]
    assert "together 80.0 with class factors; alone:" in blend.sentences()[1]
    assert len(replace(blend, class_factors=(1.0, 1.0, 1.0)).sentences()) == 2


@pytest.mark.parametrize("factors", [(), (1.0, 2.5, 0.75)])
def test_the_account_survives_json_and_a_checkpoint(factors: tuple[float, ...]) -> None:
    blend = replace(choice_of(GRAPH, FITTED), metric="macro_f1", class_factors=factors)
    assert Blend.from_dict(json.loads(json.dumps(asdict(blend)))) == blend
    kept = Selected(FITTED.ensemble, blend=blend)
    assert Selected.from_tensors(kept.to_tensors()) == kept


# The classes that are predicted.


def answer_with(factors: tuple[float, ...]) -> NodePredictions:
    """What the blend says of all nodes, without a sampler."""
    kept = SimpleNamespace(view_=SimpleNamespace(**ROWS._asdict()))
    fitted = replace(FITTED, sampler=cast("XGSampler", kept))
    with_factors = replace(head(), blend=replace(head().blend, class_factors=factors))
    return NodeClassification().answer(with_factors, fitted, NUM_CLASSES)


def test_the_class_with_the_largest_product_is_predicted() -> None:
    plain = answer_with(())
    table = plain.probabilities
    np.testing.assert_allclose(table, mixed_by_hand(head(), ROWS, NUM_CLASSES), atol=1e-6)
    np.testing.assert_array_equal(plain.predictions, table.argmax(axis=1))
    assert plain.class_factors is None
    factors = (0.5, 1.0, 20.0)
    answer = answer_with(factors)
    assert answer.choice is not None
    assert answer.choice.class_factors == factors
    np.testing.assert_array_equal(answer.probabilities, table)
    expected = [max(range(3), key=lambda c, row=row: factors[c] * row[c]) for row in table]  # type: ignore[misc]
    assert answer.predictions.tolist() == expected
    assert answer.classes_of(table[[4, 9]]).tolist() == [expected[4], expected[9]]
    assert expected != plain.predictions.tolist()


def test_factors_of_another_number_of_classes_are_refused() -> None:
    for factors in ((1.0, 2.0), (1.0, 1.0, 1.0, 1.0)):
        assert_refused(partial(answer_with, factors))


# Files.


def test_tensors_bring_every_member_back_to_the_bit() -> None:
    stored = load(save(head().to_tensors()))
    again = read_node_head(stored)
    assert isinstance(again, BlendedHead)
    assert again.blend == head().blend
    np.testing.assert_array_equal(again.weights, head().weights)
    assert [type(each) for each in again.members] == [type(each) for each in head().members]
    assert [each.ranges for each in again.members] == [each.ranges for each in head().members]
    written = again.to_tensors()
    assert written.keys() == stored.keys()
    for name, tensor in written.items():
        assert tensor.dtype == stored[name].dtype
        assert tensor.tobytes() == stored[name].tobytes()
    first, second = (each.probabilities(ROWS, NUM_CLASSES)(EVERY) for each in (head(), again))
    np.testing.assert_array_equal(first, second)


def weights(*values: float) -> Tensors:
    return {"blend.weights": np.array(values)}


def account(**changes: Any) -> Tensors:
    return text(json.dumps(asdict(head().blend) | changes))


def text(content: str) -> Tensors:
    return {"blend.account": np.frombuffer(content.encode(), dtype=np.uint8)}


def ranges(kind: type[LinearMember | TreesMember], change: Callable[[np.ndarray], Any]) -> Tensors:
    name = f"{place_of(kind)}.{kind.kind}.ranges"
    return {name: np.asarray(change(head().to_tensors()[name].copy()), dtype=np.int64)}


def filled(kind: type[LinearMember | TreesMember], name: str, value: float) -> Tensors:
    """One number of a tensor of a member is changed."""
    name = f"{place_of(kind)}.{kind.kind}.{name}"
    tensor = head().to_tensors()[name].copy()
    tensor.flat[0] = value
    return {name: tensor}


def resized(kind: type[LinearMember | TreesMember], name: str) -> Tensors:
    name = f"{place_of(kind)}.{kind.kind}.{name}"
    return {name: head().to_tensors()[name][:-1]}


def without_width(r: np.ndarray) -> list[list[int]]:
    return [*r.tolist(), [4, 4]]


def backwards(r: np.ndarray) -> list[list[int]]:
    """As many columns as before in all, but a range ends before it begins."""
    return [*r.tolist(), [9, 5], [0, 4]]


EACH_KIND = (LinearMember, TreesMember)
TAMPERED: dict[str, Callable[[], Tensors]] = {
    "weights of too much": lambda: weights(0.5, 0.3, 0.3),
    "weights of too little": lambda: weights(0.5, 0.3, 0.1),
    "a negative weight": lambda: weights(0.9, 0.3, -0.2),
    "a weight of nothing": lambda: weights(0.6, 0.4, 0.0),
    "a weight that is no number": lambda: weights(0.5, 0.5, np.nan),
    "weights without end": lambda: weights(np.inf, 0.5, 0.5),
    "no weight": lambda: weights(),
    "a single number as weights": lambda: {"blend.weights": np.array(1.0)},
    "a matrix of weights": lambda: {"blend.weights": np.array([[0.5, 0.3, 0.2]])},
    "fewer weights than heads": lambda: weights(0.5, 0.5),
    "more weights than heads": lambda: weights(0.4, 0.3, 0.2, 0.1),
    "an account that is cut short": lambda: text(json.dumps(asdict(head().blend))[:-9]),
    "an account that is no JSON": lambda: text("\x00\x01"),
    "an account that is no text": lambda: {"blend.account": np.array([255, 254], np.uint8)},
    "an empty account": lambda: text(""),
    "an account of something else": lambda: text("[]"),
    "an account without members": lambda: text('{"num_hidden": 3}'),
    "an account with other members": lambda: account(members=[[1, 2, 3]]),
    "an account with words as members": lambda: account(members=["ab"]),
    "an account with no members": lambda: account(members=[]),
    "an account that chose fewer": lambda: account(members=asdict(head().blend)["members"][:2]),
    "an account of great depth": lambda: text("[" * 100_000),
    "an account with a word as a class factor": lambda: account(class_factors=["many", 1, 1]),
    "an account with one class factor": lambda: account(class_factors=1.0),
    "an account with a class factor of 0": lambda: account(class_factors=[1, 0, 1]),
    "an account with a negative class factor": lambda: account(class_factors=[1, 1, -1]),
    "an account with a class factor without end": lambda: account(class_factors=[np.inf, 1, 1]),
    "an account with a class factor that is no number": lambda: account(class_factors=[np.nan]),
}
for _kind in EACH_KIND:
    for _name, _change in {
        "ranges of too few columns": lambda r: r[:-1],
        "ranges before the first column": lambda r: r - 100,
        "ranges that end before they begin": backwards,
        "ranges without a column": without_width,
        "ranges that are no pairs": lambda r: r.ravel(),
        "ranges of three": lambda r: np.hstack([r, r[:, :1]]),
    }.items():
        TAMPERED[f"{_kind.kind}: {_name}"] = partial(ranges, _kind, _change)
for _kind, _name in (
    (LinearMember, "coef"),
    (LinearMember, "intercept"),
    (LinearMember, "mean"),
    (TreesMember, "mean"),
    (TreesMember, "directions"),
    (TreesMember, "trees.value"),
    (TreesMember, "trees.threshold"),
):
    TAMPERED[f"{_kind.kind}: nan in {_name}"] = partial(filled, _kind, _name, np.nan)
    TAMPERED[f"{_kind.kind}: {_name} of another size"] = partial(resized, _kind, _name)


def attribute_directions(tensor: np.ndarray) -> Tensors:
    return {f"{place_of(TreesMember)}.trees.attribute_directions": tensor}


TAMPERED |= {
    "trees: attribute directions that are no matrix": lambda: attribute_directions(np.ones(4)),
    "trees: nan in attribute directions": lambda: attribute_directions(np.full((4, 2), np.nan)),
}


def assert_refused(read: Callable[[], object]) -> None:
    with pytest.raises(DataError) as refused:
        read()
    sentence = str(refused.value)
    assert sentence.endswith(".")
    assert "save" in sentence


@pytest.mark.parametrize("what", TAMPERED)
def test_tampered_tensors_are_refused_with_a_sentence(what: str) -> None:
    assert_refused(lambda: BlendedHead.from_tensors(head().to_tensors() | TAMPERED[what]()))


def test_every_tensor_is_needed() -> None:
    stored = head().to_tensors()
    for name in stored:
        rest = {key: tensor for key, tensor in stored.items() if key != name}
        assert_refused(partial(read_node_head, rest))
    for number in range(len(head().members)):
        rest = {k: tensor for k, tensor in stored.items() if not k.startswith(f"{number}.")}
        assert_refused(partial(read_node_head, rest))


@pytest.mark.parametrize("kind", EACH_KIND)
def test_ranges_outside_of_the_embedding_are_refused(
    kind: type[LinearMember | TreesMember],
) -> None:
    """A head alone cannot know how wide the embedding is: it says so when it is asked."""
    stored = head().to_tensors() | ranges(kind, lambda r: r + 1000)
    tampered = BlendedHead.from_tensors(stored)
    assert_refused(lambda: tampered.probabilities(ROWS, NUM_CLASSES)(EVERY))


# Whole models.


@cache
def model() -> XTCL:
    """A fit of the tables whose candidates all answer; not to be changed."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        equal_weights(monkeypatch)
        nodes, edges = tables().paths
        graph = read_spec(TableSpec(edges, nodes, label="kind")).graph
        split = node_split(graph, 0.4, seed=0)
        return XTCL(recipe=hidden_recipe(), device="cpu").fit(graph, split)


@pytest.mark.slow
def test_a_fit_answers_by_the_mean_of_its_heads() -> None:
    fitted = model()
    blend, graph = fitted.head_, fitted.training_data_.graph
    assert isinstance(blend, BlendedHead)
    assert {type(each) for each in blend.members} == {LinearMember, TreesMember}
    rows = rows_of(graph, fitted.fitted_task_.fitted)
    expected = mixed_by_hand(blend, rows, graph.num_classes)
    np.testing.assert_allclose(fitted.predict_proba(), expected, atol=1e-6)
    np.testing.assert_allclose(fitted.predict_proba([3, 50]), expected[[3, 50]], atol=1e-6)
    assert fitted.choice_ == blend.blend
    assert fitted.choice_.num_hidden == len(fitted.training_data_.labelled)


@pytest.mark.slow
def test_a_saved_model_answers_the_same(tmp_path: Path) -> None:
    fitted = model()
    fitted.save(tmp_path)
    loaded = XTCL.load(tmp_path)
    np.testing.assert_array_equal(loaded.predict_proba(), fitted.predict_proba())
    np.testing.assert_array_equal(loaded.predict(), fitted.predict())
    assert loaded.choice_ == fitted.choice_
    assert fitted.choice_ is not None
    table = tomllib.loads((tmp_path / "config.toml").read_text())["choice"]
    assert table["account"] == " ".join(fitted.choice_.sentences())
    assert table["hidden_labels"] == fitted.choice_.num_hidden
    assert len(table["candidates"]) == len(fitted.choice_.members)
    new = tables().new
    assert loaded.predict_new(*new).equals(fitted.predict_new(*new))
    loaded.save(tmp_path / "again")
    first, second = (
        load_file(place / "model" / "head.safetensors") for place in (tmp_path, tmp_path / "again")
    )
    assert first.keys() == second.keys()
    assert all(first[name].tobytes() == second[name].tobytes() for name in first)


def rewrite_head(folder: Path, tensors: Tensors) -> None:
    """Change the head, and sign the model again, so that its content is believed."""
    path, place = (folder / "model" / name for name in ("head.safetensors", "model.json"))
    save_file(tensors, path)
    described = json.loads(place.read_text())
    described["sha256"][path.name] = file_digest(path)
    described["digest"] = description_digest(described)
    place.write_text(json.dumps(described))


@pytest.mark.slow
def test_a_tampered_file_is_refused_with_a_sentence(tmp_path: Path) -> None:
    model().save(tmp_path)
    whole = load_file(tmp_path / "model" / "head.safetensors")
    rewrite_head(tmp_path, whole)
    XTCL.load(tmp_path)
    for name in whole:
        rewrite_head(tmp_path, {key: tensor for key, tensor in whole.items() if key != name})
        assert_refused(lambda: XTCL.load(tmp_path))
    size = len(whole["blend.weights"])
    for tampered in (np.full(size, 1.0), np.full(size, np.nan), np.array(1.0), np.ones((1, size))):
        rewrite_head(tmp_path, whole | {"blend.weights": tampered})
        assert_refused(lambda: XTCL.load(tmp_path))
    for name in (name for name in whole if name.endswith(".ranges")):
        rewrite_head(tmp_path, whole | {name: whole[name] + fitted_width()})
        assert_refused(lambda: XTCL.load(tmp_path).predict_proba())


def fitted_width() -> int:
    return int(model().embedding_.shape[1])


@pytest.mark.slow
def test_new_nodes_go_through_the_blend() -> None:
    """The graph grown by hand; a head of each kind answers for its last nodes."""
    fitted = model()
    blend, graph = fitted.head_, fitted.training_data_.graph
    assert isinstance(blend, BlendedHead)
    frame = fitted.predict_new(*tables().new)
    whole, encoding = small_graph(), graph.encoding
    assert encoding is not None
    late = whole.edges[:, (whole.edges >= FIRST).any(axis=0)]
    further = np.zeros((whole.num_nodes - FIRST, graph.num_attributes), np.float32)
    for at, column in enumerate(encoding.used):
        raw = np.asarray(whole.attributes)[FIRST:, int(column.name[1:])]
        further[:, at] = (raw - column.center) / column.scale
    larger = with_nodes(graph, further, late)
    with torch.no_grad():
        z = fitted.encoder_(*encoder_inputs(larger, torch.device("cpu")))
    labels = np.concatenate([fitted.training_data_.labels, np.full(len(further), -1)])
    rows = HeadRows(z, larger.attributes, larger.adjacency, labels)
    expected = mixed_by_hand(blend, rows, graph.num_classes)[FIRST:]
    found = frame[[f"p_{name}" for name in graph.classes]].to_numpy()
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert frame["predicted"].tolist() == [graph.classes[code] for code in expected.argmax(axis=1)]


@pytest.mark.slow
def test_a_new_node_without_links(tmp_path: Path) -> None:
    words = pd.read_csv(tables().new[0], nrows=1)
    path = write_rows(tmp_path / "one.csv", words.columns.tolist(), [words.iloc[0].tolist()])
    (found,) = model().predict_new(path).filter(like="p_").to_numpy()
    assert found.sum() == pytest.approx(1, abs=1e-4)
