"""Everything that the page shows, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from xtcl.progress import Progress
from xtcl.report.page.computed import Computed, computed
from xtcl.report.page.facts import RunFacts
from xtcl.report.page.health import Health, health
from xtcl.report.page.link_test import LinkTest, link_test
from xtcl.report.page.look_at import LookAt, look_at
from xtcl.report.page.node_map import NodeMap, node_map
from xtcl.report.page.node_test import NodeTest, node_test
from xtcl.report.page.relation_rows import RelationRow, relation_rows
from xtcl.report.page.shown_text import shown
from xtcl.report.page.words import Said, summary_words

if TYPE_CHECKING:
    from xtcl.estimator import XTCL


@dataclass(frozen=True)
class PageSummary:
    """What there is to tell about a run; a part that does not apply is None or empty.

    `alike` is the share of all known pairs that are: what a relation's precision compares with.
    """

    name: str
    task: str
    words: tuple[Said, ...]
    relations: tuple[RelationRow, ...]
    alike: float
    left_out: tuple[tuple[str, str], ...]
    map: NodeMap
    curves: tuple[tuple[float, ...], ...]
    nodes: NodeTest | None
    links: LinkTest | None
    look: LookAt
    health: Health
    computed: Computed
    compared: tuple[tuple[str, float], ...]
    trained: int


def summarise(model: XTCL, metrics: Mapping[str, Any] | None = None) -> PageSummary:
    """The summary of a fitted or loaded model; `metrics` are those of `metrics.json`."""
    from xtcl.relations.registry import relation_title

    model._fitted()
    given = metrics or {}
    progress = model.progress or Progress()
    facts = RunFacts.of(model)
    task = model._result.task.name
    relations = relation_rows(model.sampler_, progress)
    counts = model.sampler_.counts_.counts
    alike = float(counts[:, 1].sum() / max(counts.sum(), 1))
    with progress.stage("looking at nodes", 4) as advance:
        nodes, links = node_test(facts), link_test(model, facts)
        advance(1)
        look = look_at(facts)
        advance(1)
        state = health(facts, task)
        advance(1)
        places = node_map(facts)
        advance(1)
    compared = given.get("compared")
    return PageSummary(
        name=shown(facts.graph.name),
        task=task,
        words=summary_words(task, state, nodes, links, relations, alike, look),
        relations=relations,
        alike=alike,
        left_out=tuple(
            (shown(relation_title(name)), ", ".join(kinds))
            for name, kinds in model.sampler_.left_out_.items()
        ),
        map=places,
        curves=model.loss_curves_,
        nodes=nodes,
        links=links,
        look=look,
        health=state,
        computed=computed(model, given),
        compared=_figures(compared),
        trained=model.training_side_.graph.num_edges if task == "links" else len(facts.trained),
    )


def _figures(compared: object) -> tuple[tuple[str, float], ...]:
    """Scores of several methods on the same split; of one alone there is nothing to compare."""
    if not isinstance(compared, Mapping):
        return ()
    found = [(shown(name), figure) for name, figure in compared.items() if _is_number(figure)]
    return tuple(found) if len(found) > 1 else ()


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
