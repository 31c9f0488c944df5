"""Small fits, what they wrote, and ways to interrupt them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import xtcl
from xtcl.config import EncoderConfig, FitConfig
from xtcl.estimator import XTCL
from xtcl.graph.datasets.synthetic import block_model
from xtcl.graph.graph import Graph
from xtcl.graph.splits import LinkSplit, NodeSplit, link_split, node_split
from xtcl.progress import Advance, Progress
from xtcl.sampling.strategies import make_strategy
from xtcl.tasks.link_prediction import LinkPrediction
from xtcl.tasks.node_classification import NodeClassification
from xtcl.tasks.task import Task

COUNTING, FINDING, TRAINING = "learning which relations matter", "finding positives", "training"
LIKELY_LINKS, COMPARING = "finding likely links", "comparing heads"


def small_graph(num_nodes: int = 80, seed: int = 0) -> Graph:
    """A graph with classes that can be learned."""
    return block_model(num_nodes, num_classes=3, num_attributes=16, seed=seed)


def small_split(graph: Graph, task: str, seed: int = 0) -> NodeSplit | LinkSplit:
    """A split of either kind."""
    return link_split(graph, seed=seed) if task == "links" else node_split(graph, 0.3, seed=seed)


def small_model(task: Any = "nodes", encoder: Any = "gcn", **settings: Any) -> XTCL:
    """An estimator that fits in a moment."""
    chosen: dict[str, Any] = {"width": 8, "epochs": 12, "device": "cpu", **settings}
    return XTCL(task, encoder, **chosen)


def narrow(recipe: FitConfig, epochs: int) -> FitConfig:
    """The recipe with narrow encoders, trained for so many epochs."""

    def small(member: EncoderConfig) -> EncoderConfig:
        training = replace(member.training, epochs=epochs)
        return replace(member, encoder=member.encoder | {"width": 8}, training=training)

    return recipe.map_encoders(small)


def early_stopping_recipe(encoder: str = "gcn", epochs: int = 40) -> FitConfig:
    """Link prediction's recipe in small: hidden links choose among plans and say when to stop."""
    recipe = narrow(LinkPrediction().recipe(encoder), epochs)
    assert recipe.stop_early
    assert len(recipe.ensembles) > 1
    return recipe


def reads_no_label(recipe: FitConfig, encoder: EncoderConfig) -> bool:
    """Whether an encoder is the same whatever labels are hidden, so that it is trained once."""
    strategy = make_strategy(encoder.positives or recipe.strategy)
    return encoder.messages == "links" and not strategy.reads_labels


def stages_of(recipe: FitConfig, *, first: bool = False, last: bool = False) -> list[str]:
    """The stages of a hidden part, or those after the last part; the `first` trains all encoders.

    So does what goes on from a choice that was saved, where it is `first` and `last`.
    """
    encoders = recipe.ensembles[0].encoders
    trained = [each for each in encoders if first or not reads_no_label(recipe, each)]
    named = [each.positives or recipe.strategy for each in trained]
    strategies = dict.fromkeys([recipe.strategy, *named] if last else named)
    likely = [LIKELY_LINKS] if any(each.messages == "likely" for each in encoders) else []
    stages = [COUNTING, *[FINDING] * len(strategies), *likely, *[TRAINING] * len(trained)]
    return stages if last else [*stages, COMPARING]


def hidden_stages(recipe: FitConfig) -> list[str]:
    """The stages of a whole fit in which hidden labels choose."""
    later = stages_of(recipe) * (recipe.hidden_parts - 1)
    return [*stages_of(recipe, first=True), *later, *stages_of(recipe, last=True)]


def hiding_less(recipe: FitConfig) -> FitConfig:
    """Two hidden parts and logistic heads alone, where hidden labels choose: in half the time."""
    if not recipe.hidden_parts:
        return recipe
    return replace(recipe, hidden_parts=2, heads=("logistic",))


def shrink_recipes(
    monkeypatch: pytest.MonkeyPatch,
    epochs: int = 40,
    tasks: Sequence[type[Task]] = (NodeClassification, LinkPrediction),
) -> None:
    """Give the tasks small recipes of their usual form, for commands that take no settings.

    Those in which hidden labels choose have two parts and no trees.
    """
    for task in tasks:
        recipe, named_recipe = task.recipe, task.named_recipe

        def small(
            task: Task, encoder: str, recipe: Callable[[Task, str], FitConfig] = recipe
        ) -> FitConfig:
            return hiding_less(narrow(recipe(task, encoder), epochs))

        def small_named(
            task: Task,
            name: str,
            encoder: str,
            named_recipe: Callable[[Task, str, str], FitConfig] = named_recipe,
        ) -> FitConfig:
            return hiding_less(narrow(named_recipe(task, name, encoder), epochs))

        monkeypatch.setattr(task, "recipe", small)
        monkeypatch.setattr(task, "named_recipe", small_named)


def files_of(folder: Path) -> dict[str, bytes]:
    """Every file under `folder` by its relative name."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def saved_files(model: XTCL, folder: Path, **extra: Any) -> dict[str, bytes]:
    """Save `model` and read every file it wrote."""
    model.save(folder, **extra)
    return files_of(folder)


def python(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run this Python anew, with this package."""
    source = str(Path(xtcl.__file__).parents[1])
    return subprocess.run(  # noqa: S603
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env=os.environ | {"PYTHONPATH": source} | environment,
    )


PROGRESS_LINE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d .*\n")


def notes(stderr: str) -> str:
    """What a command wrote to standard error, but for the lines that say how far it is."""
    return PROGRESS_LINE.sub("", stderr)


class Recorder(Progress):
    """Remembers the stages and the steps reported in each."""

    def __init__(self) -> None:
        self.stages: list[tuple[str, int, list[int]]] = []

    @contextmanager
    def stage(self, name: str, steps: int) -> Iterator[Advance]:
        """Note the stage and its steps."""
        done: list[int] = []
        self.stages.append((name, steps, done))
        yield done.append

    @property
    def names(self) -> list[str]:
        """The stages in their order."""
        return [name for name, _, _ in self.stages]


class Interrupter(Progress):
    """Raises KeyboardInterrupt after `step` steps of the `occurrence`-th stage called `name`."""

    def __init__(self, name: str, occurrence: int, step: int) -> None:
        self.moment = (name, occurrence)
        self.step = step
        self.seen: Counter[str] = Counter()

    @contextmanager
    def stage(self, name: str, steps: int) -> Iterator[Advance]:
        """Count the steps, and interrupt at the chosen moment."""
        self.seen[name] += 1
        armed = (name, self.seen[name]) == self.moment
        total = 0

        def advance(done: int) -> None:
            nonlocal total
            total += done
            if armed and total >= self.step:
                raise KeyboardInterrupt

        yield advance
