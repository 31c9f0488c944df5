"""The identity of a fit follows the code that the user gave."""

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
from xtcl.prepare import RESULT_CODE, prepare
from xtcl.relations.own import FunctionRelation, MatrixRelation
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
        return self.layer(x)
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


@pytest.mark.parametrize("module", ["xtcl.config", "xtcl.graph.splits", "xtcl.prepare"])
def test_code_that_turns_settings_and_data_into_a_fit_is_in_the_identity(module: str) -> None:
    others = [each for each in RESULT_CODE if each != module]
    assert len(others) == len(RESULT_CODE) - 1
    assert code_digest(*others) != code_digest(*RESULT_CODE)
