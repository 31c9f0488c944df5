"""Under which conditions the runs of a page were made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from xtcl.experiments.reproduction.experiment import Record


def conditions(records: Sequence[Record]) -> str:
    """Which machines and which code made the runs, as a list; nothing of runs that do not say."""
    made = Counter(_made_by(record) for record in records if record.versions and record.hardware)
    return "\n".join(
        f"- {count} {'run' if count == 1 else 'runs'}: {text}" for text, count in made.items()
    )


def _made_by(record: Record) -> str:
    hardware, versions = record.hardware, record.versions
    gpu = "no GPU" if hardware["gpu"] == "none" else hardware["gpu"]
    return (
        f"{gpu}; {hardware['cpu']}, {hardware['threads']} thread(s); xtcl {versions['xtcl']} "
        f"(code {versions['code']}), torch {versions['torch']}"
    )
