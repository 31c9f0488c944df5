"""The compact embedding: the formula, its columns, and the same map for nodes that come later."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from answer_runs import FIRST, fitted, run_folder, tables
from scipy.special import expit, softmax
from small_runs import small_graph, small_model, small_split

from xtcl import XTCL, block_model, read_tables
from xtcl.config import FIXED_RULES
from xtcl.errors import DataError, NotFittedError
from xtcl.inference import compact
from xtcl.inference.compact import CompactMap, equalising_rotation, fit_compact_map

GOLDEN = Path(__file__).parents[1] / "golden"


def rows_of(nodes: int, width: int, seed: int = 0) -> torch.Tensor:
    """Rows whose columns differ in scale, off the origin."""
    scale = np.geomspace(1, 0.01, width)
    rows = np.random.default_rng(seed).normal(size=(nodes, width)) * scale + 1
    return torch.from_numpy(rows.astype(np.float32))


def projected_rows(
    rows: torch.Tensor, chances: np.ndarray | None, labelled: np.ndarray | None, columns: int
) -> np.ndarray:
    """(Z - m) [U V] of the formula, in float64."""
    z = rows.double().numpy()
    z = z - z.mean(axis=0)
    u = np.zeros((z.shape[1], 0))
    if chances is not None:
        penalty = 10 * (z**2).sum() / len(z) * np.eye(z.shape[1])
        a = np.linalg.solve(z.T @ z + penalty, z.T @ (chances - chances.mean(axis=0)))
        directions, singular, _ = np.linalg.svd(a, full_matrices=False)
        u = directions[:, singular > 1e-3 * singular[0]]
    share = np.full(len(z), 1 / len(z))
    if labelled is not None:
        share[labelled] += 1 / len(labelled)
    left = np.sqrt(share)[:, None] * (z - z @ u @ u.T)
    v = np.linalg.svd(left, full_matrices=False)[2][: columns - u.shape[1]].T
    return np.asarray(z @ np.hstack([u, v]))


def some_chances(rows: torch.Tensor, classes: int) -> np.ndarray:
    """Class probabilities that depend on the rows."""
    weights = np.random.default_rng(1).normal(size=(rows.shape[1], classes))
    found: np.ndarray = softmax(rows.numpy() @ weights, axis=1)
    return found


@pytest.mark.parametrize("classes", [None, 2, 5])
@pytest.mark.parametrize(("nodes", "width", "columns"), [(200, 40, 12), (30, 50, 29), (90, 7, 7)])
def test_it_is_the_formula(
    nodes: int, width: int, columns: int, classes: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compact, "_NUMBERS_PER_BLOCK", 17 * width)  # several blocks of rows
    rows = rows_of(nodes, width)
    chances = None if classes is None else some_chances(rows, classes)
    labelled = None if classes is None else np.arange(0, nodes, 5)
    found = fit_compact_map(rows, chances, labelled, min(columns, 12) if nodes > 100 else 256)
    made = found.apply(rows)
    assert made.shape == (nodes, columns)
    # Columns are determined up to a rotation, and products of rows are not changed by one.
    expected = projected_rows(rows, chances, labelled, columns)
    expected *= np.sqrt(columns / expected.var(axis=0).sum())
    np.testing.assert_allclose(made @ made.T, expected @ expected.T, atol=2e-3 * columns)


def test_a_head_that_is_fitted_on_the_labelled_rows_loses_nothing_with_few_labels() -> None:
    """The rows of 40 labelled nodes are in the span of 60 columns, whatever the others have."""
    rows = rows_of(400, 300)
    chances, labelled = some_chances(rows, 3), np.arange(40)
    made = fit_compact_map(rows, chances, labelled, width=60).apply(rows)
    plain = fit_compact_map(rows, width=60).apply(rows)
    z = (rows - rows.mean(dim=0)).numpy()
    gram = z[labelled] @ z[labelled].T

    def lost(columns: np.ndarray) -> float:
        found = columns[labelled] @ columns[labelled].T
        scale = (found * gram).sum() / (found**2).sum()
        return float(np.abs(scale * found - gram).max() / gram.max())

    assert lost(made) < 0.02 < lost(plain)


@pytest.mark.parametrize("classes", [None, 4])
def test_every_column_has_mean_0_and_variance_1(classes: int | None) -> None:
    rows = rows_of(500, 400)
    chances = None if classes is None else some_chances(rows, classes)
    made = fit_compact_map(rows, chances, np.arange(50)).apply(rows)
    assert made.shape == (500, 256)
    assert made.dtype == np.float32
    np.testing.assert_allclose(made.mean(axis=0), 0, atol=1e-4)
    np.testing.assert_allclose(made.var(axis=0), 1, atol=1e-3)


def test_wide_rows_keep_nearly_all_the_variance_that_so_many_columns_can() -> None:
    rows = rows_of(700, 900)
    found = fit_compact_map(rows)
    basis = np.linalg.qr(found.weight)[0]
    z = (rows - rows.mean(dim=0)).double().numpy()
    best = (np.linalg.svd(z, compute_uv=False)[:256] ** 2).sum()
    assert ((z @ basis) ** 2).sum() > 0.999 * best


def test_what_is_predicted_can_still_be_read() -> None:
    """Directions that principal components would leave out are kept."""
    rows = rows_of(400, 30)
    truth = (rows[:, 8] - rows[:, 8].mean()).numpy()  # eight columns have a larger variance
    chance = expit(8 * truth / truth.std())
    for chances, kept in ((None, False), (np.stack([chance, 1 - chance], axis=1), True)):
        made = fit_compact_map(rows, chances, width=4).apply(rows)
        left = np.linalg.lstsq(made, truth, rcond=None)[1] / (truth**2).sum()
        assert (float(left[0]) < 0.3) == kept


@pytest.mark.parametrize("count", [1, 2, 7, 256])
def test_the_rotation_makes_all_variances_the_same(count: int) -> None:
    variance = np.sort(np.random.default_rng(2).exponential(size=count))[::-1] ** 3
    turn = equalising_rotation(variance)
    np.testing.assert_allclose(turn.T @ turn, np.eye(count), atol=1e-12)
    np.testing.assert_allclose(np.diag(turn.T @ np.diag(variance) @ turn), variance.mean())
    np.testing.assert_array_equal(equalising_rotation(np.ones(count)) ** 2 @ np.ones(count), 1)


def test_the_same_rows_give_the_same_map_and_no_global_state_changes() -> None:
    rows = rows_of(300, 350)
    chances = some_chances(rows, 3)
    torch.manual_seed(3)
    state = torch.get_rng_state()
    one, other = (fit_compact_map(rows, chances) for _ in range(2))
    assert torch.equal(torch.get_rng_state(), state)
    np.testing.assert_array_equal(one.weight, other.weight)


def test_threads_change_no_more_than_rounding() -> None:
    rows, before = rows_of(300, 60), torch.get_num_threads()
    made = []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            made.append(fit_compact_map(rows, some_chances(rows, 3)).apply(rows))
    finally:
        torch.set_num_threads(before)
    np.testing.assert_allclose(made[0], made[1], atol=0.02)


def test_rows_that_are_all_the_same_give_a_column_of_zeros() -> None:
    rows = torch.full((5, 3), 0.3)
    np.testing.assert_array_equal(fit_compact_map(rows).apply(rows), np.zeros((5, 1)))


def test_rows_of_another_model_are_refused() -> None:
    with pytest.raises(DataError, match="has 4 columns, but the compact embedding was made from 3"):
        fit_compact_map(rows_of(5, 3)).apply(np.zeros((2, 4), np.float32))


# Of fitted models.


@pytest.mark.parametrize("task", ["nodes", "links"])
def test_a_model_has_it_by_name_and_id(task: str) -> None:
    model = fitted(task)
    made = model.compact_embedding_
    assert made is model.compact_embedding_
    assert made.shape[0] == FIRST
    assert made.shape[1] <= min(256, model.embedding_.shape[1])
    np.testing.assert_allclose(made.std(axis=0), 1, atol=1e-2)
    frame, full = model.embedding_frame(), model.embedding_frame(full=True)
    assert frame.columns.tolist() == [f"z{at:03d}" for at in range(made.shape[1])]
    assert full.columns.tolist() == [f"z{at}" for at in range(model.embedding_.shape[1])]
    np.testing.assert_array_equal(frame.to_numpy(), made)
    np.testing.assert_array_equal(full.to_numpy(), model.embedding_)
    assert frame.index[3] == full.index[3] == "=cmd()"


def test_where_no_classes_are_predicted_they_are_principal_components() -> None:
    model = fitted("links")
    expected = fit_compact_map(model.fitted_task_.fitted.embedding)
    np.testing.assert_array_equal(model.compact_map_.weight, expected.weight)


def test_before_a_fit_there_is_none() -> None:
    with pytest.raises(NotFittedError, match="call fit"):
        XTCL().compact_embedding_  # noqa: B018


def test_a_second_fit_has_its_own() -> None:
    model = small_model(epochs=1)
    one, other = small_graph(), small_graph(60, seed=3)
    model.fit(one, small_split(one, "nodes"))
    first = model.compact_embedding_
    assert len(model.fit(other, small_split(other, "nodes")).compact_embedding_) == 60
    model.fit(one, small_split(one, "nodes"))
    np.testing.assert_array_equal(model.compact_embedding_, first)


@pytest.mark.parametrize("task", ["nodes", "links"])
def test_new_nodes_go_through_the_map_of_the_fit(task: str) -> None:
    model = fitted(task)
    frame, full = (model.embed_new(*tables().new, full=full) for full in (False, True))
    assert frame.columns.tolist() == model.embedding_frame().columns.tolist()
    expected = (full.to_numpy() - model.compact_map_.mean) @ model.compact_map_.weight
    np.testing.assert_allclose(frame.to_numpy(), expected, atol=1e-4)


def test_a_new_node_that_is_like_a_node_of_the_fit_has_its_row() -> None:
    graph = block_model(50, num_classes=2, num_attributes=6, seed=1)
    alone = 49  # it has no links, so that a copy changes no neighbour of it
    nodes = pd.DataFrame(np.asarray(graph.attributes), columns=list("abcdef"))
    nodes.insert(0, "id", [f"n{u}" for u in range(50)])
    nodes["kind"] = ["yes" if code else "no" for code in np.asarray(graph.labels)]
    ends = graph.edges[:, (graph.edges != alone).all(axis=0)].T
    links = pd.DataFrame([[f"n{u}", f"n{v}"] for u, v in ends], columns=["u", "v"])
    table = read_tables(nodes, links, label="kind")
    copy = nodes.iloc[[alone]].drop(columns="kind").assign(id="copy")
    model = small_model(recipe=FIXED_RULES, epochs=3).fit(table)
    for full in (False, True):
        found = model.embed_new(copy, full=full).loc["copy"]
        np.testing.assert_allclose(found, model.embedding_frame(full).loc["n49"], atol=1e-4)
    # By default one encoder passes messages over likely links. A copy has others, for a node is
    # never likely to be linked to itself.
    model = small_model(epochs=3).fit(table)
    found = model.embed_new(copy, full=True).loc["copy"].to_numpy()
    expected = model.embedding_frame(full=True).loc["n49"].to_numpy()
    over_likely = [member.messages == "likely" for member in model.plan_.encoders]
    assert sum(over_likely) == 1
    same = np.ones(len(found), dtype=bool)
    same[: 8 * len(over_likely)] = ~np.repeat(over_likely, 8)
    np.testing.assert_allclose(found[same], expected[same], atol=1e-4)
    assert np.abs(found - expected).max() > 1e-3


@pytest.mark.parametrize("task", ["nodes", "links"])
def test_it_is_saved_with_the_model_and_pickled(task: str) -> None:
    model, loaded = fitted(task), XTCL.load(run_folder(task))
    for again in (loaded, pickle.loads(pickle.dumps(model))):  # noqa: S301
        np.testing.assert_array_equal(again.compact_map_.weight, model.compact_map_.weight)
        np.testing.assert_array_equal(again.compact_embedding_, model.compact_embedding_)
    assert "compact_map_" in vars(loaded)  # read, not fitted


@pytest.mark.parametrize("task", ["nodes", "links"])
def test_an_older_run_without_a_map_fits_it(task: str) -> None:
    model = XTCL.load(GOLDEN / "schema-3" / task)
    assert "compact_map_" not in vars(model)
    np.testing.assert_allclose(model.compact_embedding_.std(axis=0), 1, atol=1e-2)


def test_tensors_of_a_map_are_read_back() -> None:
    found = fit_compact_map(rows_of(20, 5))
    again = CompactMap.from_tensors(found.to_tensors() | {"other": np.zeros(1)})
    assert again is not None
    np.testing.assert_array_equal(again.weight, found.weight)
    np.testing.assert_array_equal(again.mean, found.mean)
    assert CompactMap.from_tensors({}) is None
