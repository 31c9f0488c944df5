"""Options of the scripts that run something on the data sets."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence

from xtcl.lab.experiments.comparison import TABLE_DATASETS
from xtcl.tasks import TASKS


def run_options(
    description: str | None,
    tasks: Sequence[str] = tuple(TASKS),
    datasets: Sequence[str] = TABLE_DATASETS,
) -> argparse.ArgumentParser:
    """A parser that knows --datasets, --tasks where there are several, --device and --data."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--datasets", type=names(datasets), default=datasets)
    if len(tasks) > 1:
        parser.add_argument("--tasks", type=names(tasks), default=tasks)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--data", default=os.environ.get("XTCL_DATA"))
    return parser


def names(known: Sequence[str]) -> Callable[[str], list[str]]:
    """Reads some of the known names, with commas between them."""

    def read(text: str) -> list[str]:
        chosen = text.split(",")
        for name in chosen:
            if name not in known:
                raise argparse.ArgumentTypeError(f"'{name}' is none of {', '.join(known)}")
        return chosen

    return read
