"""Settings that a self-supervised system takes for a graph and a task."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest
import torch
from small_runs import small_graph, small_split

from xtcl.graph.graph import Graph
from xtcl.lab.methods.self_supervised import WithTaskSettings
from xtcl.progress import Progress
from xtcl.tasks.training_data import training_data

CPU = torch.device("cpu")
GRAPH = small_graph()


class Scaled(WithTaskSettings[float]):
    """The attributes times a number; remembers the numbers of all of its kind."""

    name: ClassVar[str] = "scaled"
    title: ClassVar[str] = "Scaled"
    used: ClassVar[list[float]] = []

    def settings_for(self, graph: Graph, task: str) -> float:
        assert graph.name == GRAPH.name
        return 2.0 if task == "links" else 3.0

    def embed(
        self, graph: Graph, *, seed: int, device: torch.device, progress: Progress
    ) -> np.ndarray:
        factor = self.settings or self.settings_for(graph, "nodes")
        self.used.append(factor)
        return np.asarray(factor * graph.attributes)


@pytest.mark.parametrize(
    ("method", "task", "expected"),
    [
        (Scaled(), "nodes", [3.0]),
        (Scaled(), "links", [2.0, 2.0]),
        (Scaled(5.0), "links", [5.0, 5.0]),
    ],
)
def test_a_fit_takes_the_settings_of_its_task_unless_some_were_given(
    method: Scaled, task: str, expected: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Scaled, "used", [])
    given = method.settings
    side = training_data(GRAPH, small_split(GRAPH, task))
    method.fit(side, task, seed=0, device=CPU, progress=Progress())
    assert method.used == expected
    assert method.settings == given
