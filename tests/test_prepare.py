"""A fit, prepared: what trains, the seed, and the identity, which follows the user's code."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from small_runs import small_graph, small_model
from user_code import RELATION, user_module

from xtcl.code_digest import code_digest
from xtcl.distributed import drawn_seed
from xtcl.errors import DataError, UsageError
from xtcl.graph.splits import NodeSplit, node_split
from xtcl.prepare import RESULT_CODE, prepare
from xtcl.relations.custom import FunctionRelation, MatrixRelation
from xtcl.relations.link import Link
from xtcl.relations.pagerank import PageRank
from xtcl.relations.registry import forget_relation, register_relation
from xtcl.relations.relation import Rows
from xtcl.relations.view import TrainingView
from xtcl.tasks.custom import CustomTask

GIVEN = f"""{RELATION}

from torch import nn

FACTS = torch.arange(40)


def own_prepare(view):
    def rows(nodes):
        return (FACTS[nodes][:, None] == FACTS).float()

    return rows


def within(reach):
    return lambda u, v: abs(u[:, None] - v) < reach


class OwnLayer(nn.Module):
    def forward(self, x):
        return x.relu()


class OwnEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = OwnLayer()
        self.weight = nn.Parameter(torch.ones(3))

    def forward(self, x, edge_index):
        return self.layer(x) * self.weight.sum()
""".replace("from __future__ import annotations\n", "")


def identity(**settings: Any) -> str:
    return prepare(small_model(**settings), small_graph()).identity


def of_class(module: ModuleType) -> str:
    return identity(relations=["link", module.Own()])


def of_function(module: ModuleType) -> str:
    register_relation("facts", module.own_prepare)
    try:
        return identity(relations=["link", "facts"])
    finally:
        forget_relation("facts")


def of_task(module: ModuleType, reach: int = 3, known: int = 9) -> str:
    return identity(task=CustomTask(module.within(reach), np.arange(known)))


def of_encoder(module: ModuleType) -> str:
    return identity(encoder=module.OwnEncoder())


@pytest.mark.parametrize(
    ("identify", "old", "new"),
    [
        (of_class, "0.5)", "0.25)"),
        (of_function, ".float()", ".float() / 2"),
        (of_function, "arange(40)", "ones(40)"),
        (of_task, "< reach", "<= reach"),
        (of_encoder, "x.relu()", "x.tanh()"),
        (of_encoder, "torch.ones(3)", "torch.zeros(3)"),
    ],
)
def test_code_and_data_of_the_user_are_in_the_identity(
    identify: Any, old: str, new: str, tmp_path: Path
) -> None:
    assert old in GIVEN
    first = identify(user_module(tmp_path / "first", GIVEN))
    assert identify(user_module(tmp_path / "again", GIVEN)) == first
    assert identify(user_module(tmp_path / "new", GIVEN.replace(old, new))) != first


def test_the_place_of_a_class_in_xtcl_is_not_in_the_identity(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = user_module(tmp_path, GIVEN)
    before = of_task(module), identity(relations=["link"]), identity(relations=["pagerank"])
    for kind in (CustomTask, Link, PageRank):
        monkeypatch.setattr(kind, "__module__", "xtcl.elsewhere")
    assert (of_task(module), identity(relations=["link"]), identity(relations=["pagerank"])) == (
        before
    )


def test_the_file_of_a_class_of_the_user_is_not_in_the_identity(tmp_path: Path) -> None:
    one, other = (user_module(tmp_path / name, GIVEN, name) for name in ("one", "other"))
    for identify in (of_class, of_encoder, of_task):
        assert identify(one) == identify(other)


def test_a_matrix_is_in_the_identity_by_its_content() -> None:
    def of_matrix(scale: float, name: str = "given") -> str:
        matrix = sp.csr_array(np.eye(80) * scale)
        return identity(relations=["link", MatrixRelation(matrix, name)])

    assert of_matrix(0.5) == of_matrix(0.5)
    assert len({of_matrix(0.5), of_matrix(0.25), of_matrix(0.5, "other")}) == 3


def test_a_sparse_matrix_that_a_function_encloses_is_in_the_identity() -> None:
    def of_enclosed(scale: float) -> str:
        matrix = sp.csc_array(np.eye(80) * scale)

        def prepare(view: TrainingView) -> Rows:
            return lambda nodes: torch.from_numpy(matrix.toarray()).float()[nodes]

        return identity(relations=["link", FunctionRelation(prepare, "enclosing")])

    assert of_enclosed(0.5) == of_enclosed(0.5)
    assert of_enclosed(0.5) != of_enclosed(0.25)


def test_what_an_indicator_encloses_is_in_the_identity(tmp_path: Path) -> None:
    module = user_module(tmp_path, GIVEN)
    assert of_task(module) == of_task(module)
    assert len({of_task(module), of_task(module, reach=4), of_task(module, known=8)}) == 3


def test_half_precision_and_sparse_weights_are_described(tmp_path: Path) -> None:
    encoder = user_module(tmp_path, GIVEN).OwnEncoder().bfloat16()
    encoder.register_buffer("links", torch.eye(3).to_sparse())
    assert identity(encoder=encoder) == identity(encoder=encoder)


@pytest.mark.parametrize(
    "module", ["xtcl.config", "xtcl.graph.pairs", "xtcl.graph.splits", "xtcl.prepare"]
)
def test_code_that_turns_settings_and_data_into_a_fit_is_in_the_identity(module: str) -> None:
    others = [each for each in RESULT_CODE if each != module]
    assert len(others) == len(RESULT_CODE) - 1
    assert code_digest(*others) != code_digest(*RESULT_CODE)


def test_another_version_of_torch_is_another_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    before = identity()
    monkeypatch.setattr(torch, "__version__", "another")
    assert identity() != before


# What trains: a split, a mask, or the masks of a PyG Data.

TRAIN, TEST = np.arange(80) < 30, np.arange(80) >= 50


def masked(**masks: Any) -> Any:
    data = small_graph().to_pyg()
    for name, mask in ({"train_mask": TRAIN, "val_mask": ~TRAIN & ~TEST} | masks).items():
        data[name] = None if mask is None else torch.from_numpy(mask)
    return data


@pytest.mark.parametrize("mask", [TRAIN, torch.from_numpy(TRAIN), np.arange(30), list(range(30))])
def test_a_mask_or_numbers_are_a_split_without_a_test_side(mask: Any) -> None:
    prepared = prepare(small_model(), small_graph(), mask)
    assert isinstance(prepared.split, NodeSplit)
    assert prepared.split.train.tolist() == prepared.data.labelled.tolist() == list(range(30))
    assert not len(prepared.split.test)
    assert prepared.test_labels is None


def test_the_train_mask_of_a_data_is_read() -> None:
    known, graph = np.arange(30).tolist(), small_graph()
    assert graph.labels is not None
    alone, both = (prepare(small_model(), masked(test_mask=mask)) for mask in (None, TEST))
    for prepared in (alone, both):
        assert prepared.data.labelled.tolist() == known
        assert prepared.graph.labels is not None  # the whole graph, for the score
    assert alone.test_labels is None
    np.testing.assert_array_equal(both.test_labels, graph.labels[50:])
    own = prepare(small_model(CustomTask(np.equal.outer, np.arange(9))), masked())
    assert own.data.labelled.tolist() == known
    given = prepare(small_model(), masked(), node_split(graph, 0.5))
    assert len(given.data.labelled) == 40  # a split that is given counts
    whole = prepare(small_model(), masked(train_mask=None))
    assert whole.split is None
    assert len(whole.data.labelled) == 80


def test_links_read_no_mask() -> None:
    prepared = prepare(small_model("links"), masked())
    assert prepared.split is None
    np.testing.assert_array_equal(prepared.data.graph.edges, small_graph().edges)


def test_masks_that_cannot_be_used_are_refused() -> None:
    with pytest.raises(DataError, match=r"train_mask has the shape \[80, 10\].*train_mask\[:, 0\]"):
        prepare(small_model(), masked(train_mask=np.ones((80, 10), dtype=bool)))
    with pytest.raises(DataError, match=r"both training and test nodes: 0, .* \(30 in all\)"):
        prepare(small_model(), masked(test_mask=np.ones(80, dtype=bool)))
    with pytest.raises(DataError, match="is for 79 nodes, and graph 'blocks-80' has 80"):
        prepare(small_model(), small_graph(), TRAIN[1:])
    with pytest.raises(UsageError, match=r"no split of links: .* LinkSplit\.from_pairs"):
        prepare(small_model("links"), small_graph(), TRAIN)


# The seed.


def global_state() -> bytes:
    state: Any = np.random.get_state(legacy=False)["state"]  # noqa: NPY002 - to see it is left alone
    return bytes(state["key"].tobytes() + bytes([state["pos"] % 256]))


def test_a_seed_is_given_or_drawn() -> None:
    state = global_state()
    given: list[Any] = [0, np.int64(7), 2**32 - 1]
    assert [drawn_seed(seed) for seed in given] == [0, 7, 2**32 - 1]
    drawn = {drawn_seed(None) for _ in range(8)}
    assert len(drawn) == 8
    assert all(0 <= seed < 2**32 for seed in drawn)
    assert global_state() == state
    one, same = (np.random.RandomState(3) for _ in range(2))
    first = [drawn_seed(one), drawn_seed(one)]
    assert first == [drawn_seed(same), drawn_seed(same)]
    assert first[0] != first[1]


@pytest.mark.parametrize("seed", [-1, 2**32, 0.5, "zero", np.random.default_rng(0)])
def test_what_is_no_seed_is_refused(seed: Any) -> None:
    with pytest.raises(UsageError, match=r"random_state=.*, a numpy.random.RandomState, or None"):
        prepare(small_model(random_state=seed), small_graph())


def test_a_plan_draws_nothing() -> None:
    state = np.random.RandomState(3)
    small_model(random_state=state).memory_plan(small_graph())
    assert drawn_seed(state) == drawn_seed(np.random.RandomState(3))
