"""What a fit with the task's own recipe takes, before there is a split."""

from __future__ import annotations

from dataclasses import replace

from xtcl.graph.graph import Graph
from xtcl.planning.budget import EVERYTHING
from xtcl.planning.fit_plan import FitPlan, lay_out
from xtcl.planning.workload import LINKS, Workload
from xtcl.tasks.registry import make_task
from xtcl.tasks.training_side import TrainingSide


def estimate_fit(graph: Graph, task: str, train: float) -> FitPlan:
    """The plan of a GCN on the CPU without a budget, trained on a share of the labels or links."""
    work = Workload.of(TrainingSide(graph), task, make_task(task).recipe("gcn"))
    if task == LINKS:
        work = replace(work, labelled=0, edges=round(train * work.edges))
    else:
        work = replace(work, labelled=round(train * work.labelled))
    return lay_out(work, EVERYTHING)
