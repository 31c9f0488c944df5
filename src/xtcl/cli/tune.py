"""`xtcl tune`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from xtcl.cli.bars import Bars
from xtcl.cli.errors import INTERRUPTED, reported
from xtcl.cli.graphs import read_graph, training_share
from xtcl.cli.options import (
    DataOption,
    DeviceOption,
    EdgesOption,
    EncoderName,
    EncoderOption,
    GraphName,
    JsonOption,
    LabelOption,
    NodesOption,
    SeedOption,
    TaskName,
    TaskOption,
    TrainOption,
)
from xtcl.cli.tables import plain_table
from xtcl.errors import UsageError

if TYPE_CHECKING:
    from xtcl.experiments.tune import Tuned


@reported
def tune(
    graph: GraphName = None,
    nodes: NodesOption = None,
    edges: EdgesOption = None,
    label: LabelOption = None,
    task: TaskOption = TaskName.nodes,
    encoder: EncoderOption = EncoderName.gcn,
    trials: Annotated[int, typer.Option(min=1, help="How many recipes to try.")] = 30,
    rounds: Annotated[int, typer.Option(min=1, help="Fits that judge each of them.")] = 3,
    seed: SeedOption = 0,
    train: TrainOption = None,
    out: Annotated[Path, typer.Option(help="Recipe file to write.")] = Path("tuned.toml"),
    device: DeviceOption = "auto",
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Search for a better recipe inside the training labels (or links) of a split.

    Use what it writes with `--config` of fit and evaluate. Interrupted, the same command goes on.

    Example: xtcl tune cora --task nodes --encoder gcn --out tuned.toml
    """
    import xtcl
    from xtcl.device import pick_device
    from xtcl.experiments.evaluate import make_split
    from xtcl.experiments.study import require_optuna
    from xtcl.experiments.tune import tune as search
    from xtcl.runs.recipe_file import write_tuned
    from xtcl.tasks.registry import make_task
    from xtcl.tasks.training_side import training_side

    require_optuna()
    if out.exists():
        raise UsageError(f"'{out}' is there already; choose another --out, or remove it.")
    where = pick_device(device)
    notes = Console(stderr=True)
    whole = read_graph(graph, data, notes, task.value, nodes=nodes, edges=edges, label=label)
    share = training_share(graph, task.value, train)
    side = training_side(whole, make_split(whole, task.value, seed, share))
    out.parent.mkdir(parents=True, exist_ok=True)
    store = out.with_name(f"{out.name}.search")
    try:
        tuned = search(
            side,
            task.value,
            encoder.value,
            trials=trials,
            rounds=rounds,
            seed=seed,
            device=where,
            progress=Bars(notes),
            store=store,
        )
    except KeyboardInterrupt:
        typer.echo("Interrupted; the same command goes on from here.", err=True)
        raise typer.Exit(INTERRUPTED) from None
    described: dict[str, Any] = {
        "graph": whole.name,
        "task": task.value,
        "encoder": encoder.value,
        "trials": trials,
        "rounds": rounds,
        "seed": seed,
        "metric": make_task(task.value).metric,
        "default_hidden": round(100 * tuned.default_score, 4),
        "best_hidden": round(100 * tuned.score, 4),
        "version": xtcl.__version__,
    }
    write_tuned(out, described, tuned.recipe)
    store.unlink()
    if as_json:
        typer.echo(json.dumps(described | {"changes": _changes(tuned), "out": str(out)}))
    else:
        _show(described, _changes(tuned), out)


def _changes(tuned: Tuned) -> dict[str, Any]:
    """Where the best trial has its knobs, but for those that are where the default has them."""
    usual = tuned.trials[0].places
    return {name: place for name, place in tuned.best.places.items() if place != usual[name]}


def _show(described: dict[str, Any], changes: dict[str, Any], out: Path) -> None:
    console = Console()
    figure = f"hidden {described['metric']} (%)"
    figures = plain_table("recipe", figure, numbers=[figure])
    figures.add_row("default", f"{described['default_hidden']:.2f}")
    figures.add_row(f"best of {described['trials']}", f"{described['best_hidden']:.2f}")
    console.print(figures)
    said = [f"{n} {p:.3g}" if isinstance(p, float) else f"{n} {p}" for n, p in changes.items()]
    told = f"Changed: {', '.join(said)}." if said else "Nothing did better than the default."
    console.print(
        f"\n{told}\nRecipe written to {out}: use it with `xtcl fit --config {out}`.",
        soft_wrap=True,
        markup=False,
    )
