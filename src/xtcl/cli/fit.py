"""`xtcl fit`."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

import xtcl
from xtcl.cli import options
from xtcl.cli.check import print_plan, three_digits
from xtcl.cli.console import INTERRUPTED, Bars, plain_table, reported, weights_table
from xtcl.errors import UsageError
from xtcl.progress import PrefixedProgress

if TYPE_CHECKING:
    from xtcl.baselines import Method
    from xtcl.prepare import PreparedFit
    from xtcl.training.checkpoint import Checkpoints

_ALL = "all"
"""In --compare: every quick control of the task."""


@reported
def fit(
    graph: options.GraphName = None,
    nodes: options.NodesOption = None,
    edges: options.EdgesOption = None,
    label: options.LabelOption = None,
    task: options.TaskOption = options.TaskName.nodes,
    encoder: options.EncoderOption = options.EncoderName.gcn,
    seed: options.SeedOption = 0,
    train: options.TrainOption = None,
    out: Annotated[Path, typer.Option(help="Folder to write.")] = Path("runs/latest"),
    device: options.DeviceOption = "auto",
    memory: Annotated[
        str | None,
        typer.Option(
            help="Memory to stay within, such as 4GB.", rich_help_panel=options.LARGE_GRAPHS
        ),
    ] = None,
    store: options.StoreOption = None,
    store_limit: Annotated[
        str | None,
        typer.Option(
            help="Disk space for the store, such as 10GB.", rich_help_panel=options.LARGE_GRAPHS
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with an interrupted fit.")
    ] = False,
    epochs: options.EpochsOption = None,
    sampler: options.SamplerOption = "xtcl",
    compare: Annotated[str, typer.Option(help="Score these, too: gcn,gat, or all (quick).")] = "",
    cap: options.CapOption = None,
    index_past: options.IndexOption = None,
    config: options.ConfigOption = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Nodes: fewer candidates, sooner.")
    ] = False,
    metric: Annotated[
        str | None, typer.Option(help="What hidden labels choose for: macro_f1, ...")
    ] = None,
    data: options.DataOption = None,
    full: options.FullOption = False,
    as_json: options.JsonOption = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what it would take; fit nothing.")
    ] = False,
) -> None:
    """Fit XTCL on a part of the labels (or links) and score the rest.

    Example: xtcl fit cora --task nodes --encoder gcn --out runs/cora

    Tables: xtcl fit --nodes nodes.csv --edges edges.csv --label topic
    """
    from xtcl.device import set_mmap_threshold
    from xtcl.distributed import distributed
    from xtcl.model_selection.controls import advice
    from xtcl.model_selection.evaluation import make_split, score_method
    from xtcl.prepare import FitSettings, prepare
    from xtcl.runs.run_folder import CHECKPOINTS, check_out, finished_metrics, is_finished
    from xtcl.tasks.metrics import base_rate
    from xtcl.training.checkpoint import Checkpoints

    methods = _methods_to_compare(compare, task.value)
    config = _one_recipe(config, sampler=sampler, quick=quick)
    with distributed(device) as ranks:
        stderr = Console(stderr=True, quiet=not ranks.is_main)
        if ranks.is_main and not dry_run:
            check_out(out, resume)
        model = xtcl.XTCL(
            task.value,
            encoder.value,
            sampler=sampler,
            recipe=options.read_config(config, task.value, encoder.value, [seed], stderr),
            metric=metric,
            epochs=epochs,
            cap=cap,
            index_past=index_past,
            device=device,
            memory=memory,
            store=_relation_store(store, store_limit),
            random_state=seed,
            progress=Bars(stderr),
        )
        settings = FitSettings.of(model)  # refuses before anything is read or written
        if settings.memory is not None:
            set_mmap_threshold()
        whole = options.read_graph(
            graph, data, stderr, task.value, nodes=nodes, edges=edges, label=label
        )
        split = make_split(
            whole, task.value, seed, options.training_share(graph, task.value, train)
        )
        prepared = prepare(model, whole, split, settings)  # refuses too little memory
        if dry_run:
            if ranks.is_main:
                _show_plan(prepared, as_json)
            return
        for note in prepared.plan.notes:
            stderr.print(note, soft_wrap=True, markup=False)
        checkpoints = Checkpoints(out / CHECKPOINTS)
        finished = bool(ranks.broadcast_float(is_finished(out)))
        start = time.perf_counter()
        if not finished:
            _fit(model, prepared, checkpoints, resume)
    if not ranks.is_main:
        return
    if finished:
        metrics = finished_metrics(out, prepared.identity)
        stderr.print(f"The run in {out} is finished already.", markup=False)
        _show(metrics, None, out, as_json)
        return
    seconds = time.perf_counter() - start
    _print_notes(model, stderr)
    test = model.test_metrics(split)
    name, metric = f"xtcl-{encoder}", prepared.task.metric
    compared = {name: test[metric]}
    try:
        for method in methods:
            compared[method.name], _ = score_method(
                whole,
                split,
                method,
                seed=seed,
                device=prepared.device,
                progress=PrefixedProgress(Bars(stderr), f"{method.name}: "),
                data=prepared.data,
            )
    except KeyboardInterrupt:
        typer.echo(_interrupted(task.value), err=True)
        raise typer.Exit(INTERRUPTED) from None
    further: dict[str, Any] = {}
    if model.test_labels_ is not None:
        further["base_rate"] = base_rate(model.test_labels_)
    if _ALL in _names(compare):
        compared = dict(sorted(compared.items(), key=lambda item: -item[1]))
        further["advice"] = advice(compared, name, task.value, split.test.shape[-1])
    metrics = {
        "dataset": whole.name,
        "task": task.value,
        "method": name,
        "metric": metric,
        "seed": seed,
        "test": test,
        "compared": compared,
        "epochs": [len(curve) for curve in model.loss_curves_],
        "seconds": round(seconds, 3),
        "identity": prepared.identity,
        **further,
    }
    if model.choice_ is not None:
        metrics["choice"] = model.choice_.sentences()
    model.save(out, split=split, metrics=metrics, full=full)
    checkpoints.clear()
    _show(metrics, model.relation_weights_, out, as_json)


def _names(compare: str) -> list[str]:
    return [name.strip().lower() for name in compare.split(",") if name.strip()]


def _one_recipe(config: Path | None, *, sampler: str, quick: bool) -> Path | None:
    """What --config names, or the quick recipe; refuses two recipes at once."""
    from xtcl.config import QUICK

    asked = {"--sampler paper": sampler == "paper", "--quick": quick, "--config": bool(config)}
    names = [name for name, is_asked in asked.items() if is_asked]
    if len(names) > 1:
        raise UsageError(f"{names[0]} is a recipe of its own: leave it out, or {names[1]}.")
    return Path(QUICK) if quick else config


def _methods_to_compare(compare: str, task: str) -> list[Method]:
    """The methods that --compare names, each once; refuses one that cannot do the task."""
    from xtcl.baselines import make_method
    from xtcl.model_selection.controls import QUICK_CONTROLS

    named = _names(compare)
    every = [each for name in named for each in (QUICK_CONTROLS[task] if name == _ALL else [name])]
    methods = [make_method(name) for name in dict.fromkeys(every)]
    for method in methods:
        method.check_task(task)
    return methods


def _fit(model: xtcl.XTCL, prepared: PreparedFit, checkpoints: Checkpoints, resume: bool) -> None:
    """Fit, from what `checkpoints` hold of the same fit where that is wanted."""
    from xtcl.distributed import world

    world().assert_same(prepared.identity)
    if world().is_main:
        if not resume:
            checkpoints.clear()
        checkpoints.take_ownership(prepared.identity)
    try:
        model.fit_prepared(prepared, checkpoints=checkpoints)
    except KeyboardInterrupt:
        if world().is_main:
            typer.echo(_interrupted(prepared.task.name), err=True)
        raise typer.Exit(INTERRUPTED) from None


def _interrupted(task: str) -> str:
    """What of an interrupted fit is kept, and what is done again."""
    from xtcl.distributed import world
    from xtcl.training.trainer import CHECKPOINT_EVERY

    alone = world().world_size == 1
    parts = "counted folds, the nodes whose positives were found, " if alone else ""
    trials = "Trials on hidden links are trained again. " if task == "links" else ""
    return (
        f"Interrupted. Finished stages are kept, {parts}and training up to each "
        f"{CHECKPOINT_EVERY}th epoch; the rest of the stage that ran is done again. {trials}To go "
        "on, give the same command with --resume."
    )


def _print_notes(model: xtcl.XTCL, stderr: Console) -> None:
    """What the sampler left out, and how much an index found."""
    for name, kinds in model.sampler_.left_out_.items():
        sentence = left_out_sentence(name, kinds, options.TaskName(str(model.task)))
        stderr.print(sentence, soft_wrap=True, markup=False)
    for name, recall in model.sampler_.index_recall_.items():
        stderr.print(f"An index finds {recall:.0%} of the nearest by {name}.", markup=False)


def _show_plan(prepared: PreparedFit, as_json: bool) -> None:
    """Print the memory plan, and on standard error what it changes in the result."""
    from xtcl.planning.timing import relation_seconds

    plan, budget = prepared.plan, prepared.settings.memory
    seconds = relation_seconds(prepared.data, prepared.sizes, prepared.settings.relations)
    for note in plan.notes:
        typer.echo(note, err=True)
    if as_json:
        described = {"budget_bytes": budget, **plan.described()}
        typer.echo(json.dumps(described | {"relation_seconds": three_digits(seconds)}))
    else:
        print_plan(plan, budget, prepared.graph.num_nodes, seconds)


def _relation_store(folder: Path | None, limit: str | None) -> xtcl.RelationStore | None:
    from xtcl.device import parse_memory

    if folder is None:
        if limit is not None:
            raise UsageError("--store-limit says how large a store may grow: name it with --store.")
        return None
    return xtcl.RelationStore(
        folder, None if limit is None else parse_memory(limit, "--store-limit")
    )


def left_out_sentence(name: str, kinds: Sequence[str], task: options.TaskName) -> str:
    """Why a relation was left out: the graph lacks what it reads, or the task withholds it."""
    withheld = {"labels"} if task is options.TaskName.links else set()
    lacking = [kind for kind in kinds if kind not in withheld]
    reasons = [f"the graph has no {' and no '.join(lacking)}"] if lacking else []
    reasons += [f"link prediction does not read {kind}" for kind in kinds if kind in withheld]
    return f"Relation {name} was left out: {' and '.join(reasons)}."


def _show(metrics: dict[str, Any], weights: Any, out: Path, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(metrics | {"out": str(out)}))
        return
    console = Console()
    figures = plain_table(
        "method",
        f"test {metrics['metric']} (%)",
        numbers=[f"test {metrics['metric']} (%)"],
    )
    for name, figure in metrics["compared"].items():
        figures.add_row(name, f"{100 * figure:.2f}")
    console.print(figures)
    if metrics.get("advice"):
        console.print(f"\n{metrics['advice']}", soft_wrap=True, markup=False)
    if "base_rate" in metrics:
        console.print()
        console.print(_metrics_table(metrics))
    if "choice" in metrics:
        console.print("\n" + "\n".join(metrics["choice"]), soft_wrap=True, markup=False)
    if weights is not None:
        console.print()
        console.print(weights_table(weights))
    console.print(
        f"\nRun written to {out} (picture: {out / 'relation_weights.png'})",
        soft_wrap=True,
        markup=False,
    )


def _metrics_table(metrics: dict[str, Any]) -> Table:
    """All metrics of a fit for nodes, with the accuracy of naming the largest class."""
    from xtcl.tasks.metrics import METRIC_TITLES, METRICS, displayed_score

    table = plain_table("test metric", metrics["method"], numbers=[metrics["method"]])
    table.add_row("largest class (base rate)", f"{100 * metrics['base_rate']:.2f} %")
    for name in METRICS["nodes"]:
        if name in metrics["test"]:
            figure = displayed_score(name, metrics["test"][name])
            text = f"{figure:.4f}" if name == "log_loss" else f"{figure:.2f} %"
            table.add_row(METRIC_TITLES.get(name, name), text)
    return table
