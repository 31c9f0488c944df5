"""What all methods refuse in the same words."""

from __future__ import annotations

import pytest
import torch
from small_runs import small_graph

from xtcl.baselines import METHODS, make_method
from xtcl.errors import UsageError
from xtcl.progress import Progress
from xtcl.tasks import TASKS
from xtcl.tasks.training_data import TrainingData

SIDE = TrainingData(small_graph())


@pytest.mark.parametrize(
    ("name", "task"),
    [
        (name, task)
        for name, kind in METHODS.items()
        for task in sorted({*TASKS, "own"} - kind.tasks)
    ],
)
def test_a_task_without_an_answer_is_refused(name: str, task: str) -> None:
    method = make_method(name)
    known = ", ".join(sorted(method.tasks))
    with pytest.raises(UsageError) as refused:
        method.fit(SIDE, task, seed=0, device=torch.device("cpu"), progress=Progress())
    assert str(refused.value) == f"{method.title} has no task '{task}'. It knows: {known}."
