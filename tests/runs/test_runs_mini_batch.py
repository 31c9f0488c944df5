"""A fit in mini-batches: one setting of the recipe, saved, loaded and resumed like any other."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_runs import (
    TRAINING,
    Interrupter,
    narrow,
    saved_files,
    small_graph,
    small_model,
    small_split,
)

from xtcl.config import BatchConfig, EncoderConfig, FitConfig
from xtcl.errors import DataError
from xtcl.estimator import XTCL
from xtcl.nn.encoder import encoder_inputs
from xtcl.runs.config_file import read_recipe
from xtcl.tasks import make_task
from xtcl.training.checkpoint import Checkpoints

KINDS = [("nodes", "gcn"), ("nodes", "gat"), ("links", "gcn")]
BATCH = BatchConfig((3, None), block=50)


def recipe_of(task: str, encoder: str, batch: BatchConfig) -> FitConfig:
    def changed(member: EncoderConfig) -> EncoderConfig:
        return replace(member, training=replace(member.training, anchors=20, batch=batch))

    return narrow(make_task(task).recipe(encoder), 12).map_encoders(changed)


def fit(task: str, encoder: str, batch: BatchConfig = BATCH, **settings: Any) -> XTCL:
    graph, checkpoints = small_graph(), settings.pop("checkpoints", None)
    chosen = recipe_of(task, encoder, batch)
    model = small_model(task, encoder, recipe=chosen, width=None, epochs=None, **settings)
    return model.fit(graph, small_split(graph, task), checkpoints=checkpoints)


@pytest.mark.parametrize(("task", "encoder"), KINDS)
def test_a_run_is_saved_loaded_and_repeated(task: str, encoder: str, tmp_path: Path) -> None:
    model = fit(task, encoder)
    files = saved_files(model, tmp_path / "run")
    assert saved_files(fit(task, encoder), tmp_path / "again") == files
    stored = read_recipe(tmp_path / "run" / "config.toml", task, encoder)
    assert stored.recipe == recipe_of(task, encoder, BATCH)
    loaded = XTCL.load(tmp_path / "run")
    np.testing.assert_array_equal(loaded.embedding_, model.embedding_)
    x, edge_index = encoder_inputs(model.training_data_.graph, torch.device("cpu"))
    with torch.no_grad():
        whole = model.encoder_.eval()(x, edge_index).numpy()
    np.testing.assert_allclose(model.embedding_, whole, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("task", "encoder"), KINDS)
def test_a_resumed_run_is_the_same(task: str, encoder: str, tmp_path: Path) -> None:
    files = saved_files(fit(task, encoder), tmp_path / "whole")
    kept, last = Checkpoints(tmp_path / "kept"), 2 if (task, encoder) == ("nodes", "gcn") else 1
    with pytest.raises(KeyboardInterrupt):
        fit(task, encoder, checkpoints=kept, progress=Interrupter(TRAINING, last, 11))
    assert saved_files(fit(task, encoder, checkpoints=kept), tmp_path / "resumed") == files


def test_what_is_no_number_of_neighbours_is_refused(tmp_path: Path) -> None:
    saved_files(fit("nodes", "gat"), tmp_path)
    config = tmp_path / "config.toml"
    text = config.read_text()
    assert 'neighbours = [3, "none"]' in text
    for wrong in ('[3, "few"]', "[true]", "[2.5]", "[0]", "3", '"ab"'):
        config.write_text(text.replace('[3, "none"]', wrong))
        with pytest.raises(DataError, match="holds no recipe that can be used"):
            read_recipe(config, "nodes", "gat")
