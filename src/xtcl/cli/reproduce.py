"""`xtcl reproduce`."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from xtcl.cli.bars import Bars
from xtcl.cli.errors import INTERRUPTED, reported
from xtcl.cli.options import DataOption, DeviceOption, JsonOption, checked_seed
from xtcl.errors import DataError


@reported
def reproduce(
    name: Annotated[
        str,
        typer.Argument(metavar="NAME", help="An experiment; a wrong name lists them."),
    ],
    datasets: Annotated[
        str | None, typer.Option(help="Only these data sets, with commas between.")
    ] = None,
    methods: Annotated[
        str | None, typer.Option(help="Only these systems, with commas between.")
    ] = None,
    splits: Annotated[int | None, typer.Option(min=1, help="How many splits.")] = None,
    seed: Annotated[
        int,
        typer.Option(metavar="N", callback=checked_seed, help="The seed of the first split."),
    ] = 0,
    quick: Annotated[bool, typer.Option("--quick", help="A small version, in minutes.")] = False,
    draw_only: Annotated[
        bool, typer.Option("--draw-only", help="Draw from the runs that are there; make none.")
    ] = False,
    out: Annotated[Path, typer.Option(help="Folder for runs, tables and figures.")] = Path(
        "reproduction"
    ),
    device: DeviceOption = "auto",
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Redraw a table or figure of the paper from runs of your own.

    Every run is kept; interrupted, the same command goes on.

    Example: xtcl reproduce table-nodes --quick
    """
    from xtcl.device import pick_device
    from xtcl.experiments.reproduction.batch import read_records, run_missing
    from xtcl.experiments.reproduction.experiment import Bench, Scope
    from xtcl.experiments.reproduction.registry import make_experiment
    from xtcl.report.reproduction.registry import draw_experiment

    experiment = make_experiment(name)
    scope = Scope(_names(datasets), _names(methods), splits, quick, seed)
    measurements = experiment.measurements(scope)
    notes = Console(stderr=True)
    runs = out / experiment.name / "runs"
    try:
        if draw_only:
            records = list(read_records(measurements, runs).values())
        else:
            bench = Bench(pick_device(device), data, Bars(notes))
            records = run_missing(
                measurements,
                runs,
                bench,
                lambda line: notes.print(line, markup=False, highlight=False),
            )
    except KeyboardInterrupt:
        typer.echo("Interrupted; the same command goes on from here.", err=True)
        raise typer.Exit(INTERRUPTED) from None
    if not records:
        state = f"is in {runs}" if draw_only else "could be made"
        raise DataError(f"None of the {len(measurements)} runs of '{name}' {state}.")
    page = draw_experiment(experiment, records, out / experiment.name)
    if as_json:
        described = {"name": experiment.name, "asked": len(measurements), "out": str(page.parent)}
        typer.echo(json.dumps(described | {"runs": [asdict(record) for record in records]}))
    else:
        typer.echo(page.read_text(encoding="utf-8"))
    notes.print(f"Written to {page.parent}.", markup=False, soft_wrap=True)
    if len(records) < len(measurements) and not draw_only:
        missing = len(measurements) - len(records)
        raise DataError(f"{missing} of {len(measurements)} runs could not be made; see above.")


def _names(text: str | None) -> list[str] | None:
    return None if text is None else [name.strip().lower() for name in text.split(",")]
