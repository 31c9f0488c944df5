"""`xtcl evaluate`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

import xtcl
from xtcl.baselines import HOMES
from xtcl.cli import options
from xtcl.cli.console import INTERRUPTED, Bars, plain_table, reported
from xtcl.errors import DataError, UsageError

if TYPE_CHECKING:
    from xtcl.baselines import Method
    from xtcl.model_selection.evaluation import Evaluation, MethodComparison
    from xtcl.model_selection.tuning import Tuned

EXPERIMENT_NAMES = (
    *("table-nodes", "table-links", "datasets", "learning-curve"),
    *("perturbation", "importance", "time", "classes"),
    *("any-graph", "hard-graphs"),
)
"""What `xtcl reproduce` can redraw. The experiments themselves import torch."""


@reported
def evaluate(
    graph: options.GraphName = None,
    nodes: options.NodesOption = None,
    edges: options.EdgesOption = None,
    label: options.LabelOption = None,
    task: options.TaskOption = options.TaskName.nodes,
    method: Annotated[
        str, typer.Option(help=f"One or several, as gcn,gat, of {', '.join(HOMES)}.")
    ] = "xtcl-gcn",
    metric: Annotated[
        str | None,
        typer.Option(
            help="Shown, and chosen for: macro_f1, ...",
            show_default=False,
        ),
    ] = None,
    splits: Annotated[
        int, typer.Option(min=1, metavar="N", help="How many splits, from --seed up.")
    ] = 5,
    seed: options.SeedOption = 0,
    train: options.TrainOption = None,
    device: options.DeviceOption = "auto",
    epochs: options.EpochsOption = None,
    cap: options.CapOption = None,
    index_past: options.IndexOption = None,
    config: options.ConfigOption = None,
    data: options.DataOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Fit and score methods on several splits: mean and standard error, in percent.

    Several methods get the same splits, and each its paired difference to the first.

    Example: xtcl evaluate cora --method xtcl-gcn,gcn --splits 5 --json

    Tables: xtcl evaluate --nodes nodes.csv --edges edges.csv --label topic
    """
    from xtcl.baselines import make_method
    from xtcl.device import pick_device
    from xtcl.lab.methods.contrastive import with_truth
    from xtcl.model_selection.evaluation import compare
    from xtcl.tasks.metrics import check_metric

    methods = [make_method(name) for name in dict.fromkeys(_names(method) or [])]
    for each in methods:
        each.check_task(task.value)
    if metric is not None:
        check_metric(metric, task.value)
    notes = Console(stderr=True)
    given = {"--config": config, "--epochs": epochs, "--cap": cap, "--index-past": index_past}
    changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if changes:
        changes["--metric"] = metric
        seeds = range(seed, seed + splits)
        methods = _with_changes(methods, task.value, changes, seeds, notes)
    whole = options.read_graph(
        graph, data, notes, task.value, nodes=nodes, edges=edges, label=label
    )
    try:
        found = compare(
            [with_truth(each, whole) for each in methods],
            whole,
            splits,
            task=task.value,
            metric=metric,
            seed=seed,
            train=options.training_share(graph, task.value, train),
            device=pick_device(device),
            progress=Bars(notes),
        )
    except KeyboardInterrupt:
        typer.echo("Interrupted. Nothing is kept: the same command starts anew.", err=True)
        raise typer.Exit(INTERRUPTED) from None
    if as_json:
        result = found if len(found.methods) > 1 else found.methods[0]
        typer.echo(json.dumps(result.to_json()))
    elif len(found.methods) > 1:
        _show_comparison(found, splits)
    else:
        _show_evaluation(found.methods[0], splits)


def _with_changes(
    methods: Sequence[Method],
    task: str,
    changes: Mapping[str, Any],
    seeds: Sequence[int],
    notes: Console,
) -> list[Method]:
    """The methods, with what the options change in those that have a recipe of XTCL."""
    from xtcl.baselines.method import XTCLMethod, XTCLPaper

    config, epochs, cap, index_past = map(
        changes.get, ("--config", "--epochs", "--cap", "--index-past")
    )
    if not any(isinstance(each, XTCLMethod) for each in methods):
        raise UsageError(
            f"{next(iter(changes))} is for xtcl-gcn, xtcl-gat, xtcl-paper and xtcl-paper-gat: "
            f"{methods[0].name} has no recipe."
        )
    changed = list(methods)
    for place, each in enumerate(methods):
        if not isinstance(each, XTCLMethod):
            continue
        if config is not None and isinstance(each, XTCLPaper):
            raise UsageError(
                f"{each.name} is the paper's recipe, which --config would replace: use "
                f"--method xtcl-{each.encoder}."
            )
        stored = options.read_config(config, task, each.encoder, seeds, notes)
        recipe = stored or each.recipe_for(task)
        model = xtcl.XTCL(
            task,
            each.encoder,
            recipe=recipe,
            metric=changes.get("--metric") if recipe.hidden_parts else None,
            epochs=epochs,
            cap=cap,
            index_past=index_past,
        )
        changed[place] = type(each)(model.resolved_recipe())
    return changed


def _show_evaluation(result: Evaluation, splits: int) -> None:
    from xtcl.report.charts import spread_labels

    console, digits = Console(), _digits(result.metric)
    console.print(
        f"{result.method} on {result.dataset}, {result.task}: {result.metric} "
        f"{spread_labels(result.mean, result.stderr, digits=digits)} over {splits} split(s)",
        markup=False,
    )
    console.print("runs: " + ", ".join(f"{run:.{digits}f}" for run in result.runs))
    console.print("seconds: " + ", ".join(f"{s:.1f}" for s in result.seconds))


def _digits(metric: str) -> int:
    """How many digits to show after the point; log-loss alone is not in percent."""
    return 4 if metric == "log_loss" else 2


def _show_comparison(found: MethodComparison, splits: int) -> None:
    from xtcl.report.charts import spread_labels

    console, digits = Console(), _digits(found.metric)
    minus = f"minus {found.methods[0].method}"
    figure = f"{found.metric} (less is better)" if digits == 4 else f"{found.metric} (%)"
    table = plain_table("method", figure, minus, numbers=[figure, minus])
    differences = [spread_labels(d.mean, d.stderr, "+", digits) for d in found.differences]
    for each, difference in zip(found.methods, ["", *differences], strict=True):
        table.add_row(each.method, spread_labels(each.mean, each.stderr, digits=digits), difference)
    console.print(table)
    error = " ± is the standard error of a mean." if splits > 1 else ""
    console.print(
        f"\n{found.dataset}, {found.task}, {splits} split(s).{error}", soft_wrap=True, markup=False
    )


@reported
def reproduce(
    name: Annotated[
        str,
        typer.Argument(metavar="NAME", help=f"One of {', '.join(EXPERIMENT_NAMES)}."),
    ],
    datasets: Annotated[
        str | None, typer.Option(help="Only these of `xtcl datasets`, as cora,pubmed.")
    ] = None,
    methods: Annotated[
        str | None, typer.Option(help="Only these of `xtcl methods`, as gcn,gat.")
    ] = None,
    splits: Annotated[int | None, typer.Option(min=1, help="How many splits.")] = None,
    seed: Annotated[
        int,
        typer.Option(
            metavar="N", callback=options.checked_seed, help="The seed of the first split."
        ),
    ] = 0,
    quick: Annotated[bool, typer.Option("--quick", help="A small version, in minutes.")] = False,
    draw_only: Annotated[
        bool, typer.Option("--draw-only", help="Draw from the runs that are there; make none.")
    ] = False,
    out: Annotated[Path, typer.Option(help="Folder for runs, tables and figures.")] = Path(
        "reproduction"
    ),
    device: options.DeviceOption = "auto",
    data: options.DataOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Redraw a table or figure of the paper, or of graphs beyond it, from runs of your own.

    Every run is kept; interrupted, the same command goes on.

    Example: xtcl reproduce table-nodes --quick
    """
    from xtcl.device import pick_device
    from xtcl.lab.experiments import draw_experiment, make_experiment
    from xtcl.lab.experiments.experiment import Context, Selection, read_records, run_missing
    from xtcl.lab.experiments.records import RecordFile

    experiment = make_experiment(name)
    selection = Selection(_names(datasets), _names(methods), splits, quick, seed)
    runs = experiment.runs(selection)
    notes = Console(stderr=True)
    folder = out / experiment.name
    file = RecordFile(folder / f"{experiment.name}.jsonl", old=folder / "runs")
    try:
        if draw_only:
            records = list(read_records(runs, file).values())
        else:
            context = Context(pick_device(device), data, Bars(notes))
            records = run_missing(
                runs,
                file,
                context,
                lambda line: notes.print(line, markup=False, highlight=False),
            )
    except KeyboardInterrupt:
        typer.echo(
            "Interrupted. Finished runs are kept: the same command goes on with the run that was "
            "interrupted, from its start.",
            err=True,
        )
        raise typer.Exit(INTERRUPTED) from None
    if not records:
        state = f"is in {file.path}" if draw_only else "could be made"
        raise DataError(f"None of the {len(runs)} runs of '{name}' {state}.")
    page = draw_experiment(experiment, records, folder)
    if as_json:
        described = {"name": experiment.name, "asked": len(runs), "out": str(page.parent)}
        typer.echo(json.dumps(described | {"runs": [asdict(record) for record in records]}))
    else:
        typer.echo(page.read_text(encoding="utf-8"))
    notes.print(f"Written to {page.parent}.", markup=False, soft_wrap=True)
    if len(records) < len(runs) and not draw_only:
        missing = len(runs) - len(records)
        raise DataError(f"{missing} of {len(runs)} runs could not be made; see above.")


def _names(text: str | None) -> list[str] | None:
    return None if text is None else [name.strip().lower() for name in text.split(",")]


@reported
def tune(
    graph: options.GraphName = None,
    nodes: options.NodesOption = None,
    edges: options.EdgesOption = None,
    label: options.LabelOption = None,
    task: options.TaskOption = options.TaskName.nodes,
    encoder: options.EncoderOption = options.EncoderName.gcn,
    trials: Annotated[int, typer.Option(min=1, help="How many recipes to try.")] = 30,
    rounds: Annotated[int, typer.Option(min=1, help="Fits per trial.")] = 3,
    seed: options.SeedOption = 0,
    train: options.TrainOption = None,
    out: Annotated[Path, typer.Option(help="Recipe file to write.")] = Path("tuned.toml"),
    device: options.DeviceOption = "auto",
    data: options.DataOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Search for a better recipe inside the training labels (or links) of a split.

    Use what it writes with `--config` of fit and evaluate. Interrupted, the same command goes on.

    Example: xtcl tune cora --task nodes --encoder gcn --out tuned.toml
    """
    from xtcl.device import pick_device
    from xtcl.model_selection import tuning as search
    from xtcl.model_selection.evaluation import make_split
    from xtcl.runs.config_file import write_tuned
    from xtcl.tasks import make_task
    from xtcl.tasks.training_data import training_data

    search.require_optuna()
    if out.exists():
        raise UsageError(f"'{out}' is there already; choose another --out, or remove it.")
    where = pick_device(device)
    notes = Console(stderr=True)
    whole = options.read_graph(
        graph, data, notes, task.value, nodes=nodes, edges=edges, label=label
    )
    share = options.training_share(graph, task.value, train)
    side = training_data(whole, make_split(whole, task.value, seed, share))
    out.parent.mkdir(parents=True, exist_ok=True)
    store = out.with_name(f"{out.name}.search")
    try:
        tuned = search.tune(
            side,
            task.value,
            encoder.value,
            trials=trials,
            cv_rounds=rounds,
            seed=seed,
            device=where,
            progress=Bars(notes),
            store=store,
        )
    except KeyboardInterrupt:
        typer.echo(
            "Interrupted. Finished trials are kept: the same command goes on with the trial that "
            "was interrupted, from its start.",
            err=True,
        )
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
    """The values of the best trial that differ from those of the default recipe."""
    default = tuned.trials[0].values
    return {name: value for name, value in tuned.best.values.items() if value != default[name]}


def _show(described: dict[str, Any], changes: dict[str, Any], out: Path) -> None:
    console = Console()
    figure = f"hidden {described['metric']} (%)"
    figures = plain_table("recipe", figure, numbers=[figure])
    figures.add_row("default", f"{described['default_hidden']:.2f}")
    figures.add_row(f"best of {described['trials']}", f"{described['best_hidden']:.2f}")
    console.print(figures)
    values = [f"{n} {p:.3g}" if isinstance(p, float) else f"{n} {p}" for n, p in changes.items()]
    text = f"Changed: {', '.join(values)}." if values else "Nothing did better than the default."
    console.print(
        f"\n{text}\nRecipe written to {out}: use it with `xtcl fit --config {out}`.",
        soft_wrap=True,
        markup=False,
    )
