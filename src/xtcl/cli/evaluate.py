"""`xtcl evaluate`."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.console import Console

from xtcl.cli.bars import Bars
from xtcl.cli.errors import reported
from xtcl.cli.graphs import read_graph, training_share
from xtcl.cli.options import (
    CapOption,
    ConfigOption,
    DataOption,
    DeviceOption,
    EdgesOption,
    GraphName,
    IndexOption,
    JsonOption,
    LabelOption,
    NodesOption,
    SeedOption,
    TaskName,
    TaskOption,
    TrainOption,
)
from xtcl.cli.recipe_option import capped, read_config
from xtcl.errors import UsageError


@reported
def evaluate(
    graph: GraphName = None,
    nodes: NodesOption = None,
    edges: EdgesOption = None,
    label: LabelOption = None,
    task: TaskOption = TaskName.nodes,
    method: Annotated[str, typer.Option(help="See `xtcl methods`.")] = "xtcl-gcn",
    splits: Annotated[int, typer.Option(min=1, help="How many splits, from --seed up.")] = 5,
    seed: SeedOption = 0,
    train: TrainOption = None,
    device: DeviceOption = "auto",
    cap: CapOption = None,
    index_past: IndexOption = None,
    config: ConfigOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Fit and score a method on several splits: mean and standard error, in percent.

    Example: xtcl evaluate cora --task nodes --method xtcl-gcn --splits 5 --json

    Tables: xtcl evaluate --nodes nodes.csv --edges edges.csv --label topic
    """
    from xtcl.baselines.ceiling_scl import with_truth
    from xtcl.baselines.registry import make_method
    from xtcl.baselines.xtcl import XTCLMethod
    from xtcl.device import pick_device
    from xtcl.experiments.evaluate import evaluate as run
    from xtcl.report.markdown import spread

    chosen = make_method(method)
    chosen.check_task(task.value)
    notes = Console(stderr=True)
    given = {"--config": config, "--cap": cap, "--index-past": index_past}
    changes = [name for name, value in given.items() if value is not None]
    if changes:
        if not isinstance(chosen, XTCLMethod):
            raise UsageError(
                f"{changes[0]} is for xtcl-gcn and xtcl-gat: {chosen.name} has no recipe."
            )
        seeds = range(seed, seed + splits)
        stored = read_config(config, task.value, chosen.encoder, seeds, notes)
        recipe = stored or chosen.recipe_for(task.value)
        chosen = type(chosen)(capped(recipe, cap, index_past))
    whole = read_graph(graph, data, notes, task.value, nodes=nodes, edges=edges, label=label)
    result = run(
        whole,
        task.value,
        with_truth(chosen, whole),
        splits=splits,
        seed=seed,
        train=training_share(graph, task.value, train),
        device=pick_device(device),
        progress=Bars(notes),
    )
    if as_json:
        typer.echo(json.dumps(result.to_json()))
        return
    console = Console()
    console.print(
        f"{result.method} on {result.dataset}, {result.task}: "
        f"{result.metric} {spread(result.mean, result.stderr)} over {splits} split(s)",
        markup=False,
    )
    console.print("runs: " + ", ".join(f"{run:.2f}" for run in result.runs))
    console.print("seconds: " + ", ".join(f"{s:.1f}" for s in result.seconds))
