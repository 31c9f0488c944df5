"""Relations by name: the paper's nine, and the user's own."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, is_dataclass
from typing import Any, cast

from xtcl.errors import UsageError, known_names
from xtcl.relations.attribute_distribution import AttributeDistribution
from xtcl.relations.attribute_label_distribution import AttributeLabelDistribution
from xtcl.relations.attribute_similarity import AttributeSimilarity
from xtcl.relations.graph_distance import GraphDistance
from xtcl.relations.jaccard import Jaccard
from xtcl.relations.label_distribution import LabelDistribution
from xtcl.relations.link import Link
from xtcl.relations.pagerank import PageRank
from xtcl.relations.relation import Relation, Rows
from xtcl.relations.topology import Topology
from xtcl.relations.view import ATTRIBUTES, LABELS, LINKS, TrainingView

PAPER_RELATIONS: tuple[type[Relation], ...] = (
    Link,
    PageRank,
    Jaccard,
    Topology,
    GraphDistance,
    AttributeSimilarity,
    AttributeDistribution,
    LabelDistribution,
    AttributeLabelDistribution,
)


EVIDENCE = frozenset({ATTRIBUTES, LINKS, LABELS})
"""What a relation can read."""


_known: dict[str, type[Relation]] = {kind.name: kind for kind in PAPER_RELATIONS}


def relation_names() -> tuple[str, ...]:
    """Names of all known relations: the paper's nine in its order, then the user's."""
    return tuple(_known)


def make_relation(name: str, **parameters: Any) -> Relation:
    """The relation called `name`, with the given parameters and the defaults of the others."""
    if name not in _known:
        raise UsageError(f"There is no relation '{name}'.{known_names(name, _known)}")
    return _known[name](**parameters)


def register_relation(
    name: str,
    prepare: type[Relation] | Callable[[TrainingView], Rows],
    *,
    title: str | None = None,
    reads: Iterable[str] = (LINKS,),
) -> None:
    """Make a class or a function known as the relation `name`.

    A class derives from `Relation` and says itself what its title is and what it reads. A function
    `prepare` gets a `TrainingView` and returns a function from node indices [b] to similarities
    [b, V] in [0, 1]. `reads` names what it looks at ("attributes", "links", "labels"); it only
    decides whether the relation can be computed from what the graph has.
    """
    if name in _known:
        raise UsageError(f"There is a relation '{name}' already; choose another name.")
    if isinstance(prepare, type):
        kind = _checked(prepare)
        if kind.name != name:
            raise UsageError(f"The class calls itself '{kind.name}', not '{name}'.")
        _known[name] = kind
        return
    function = prepare

    @dataclass(frozen=True)
    class Own(Relation):
        def prepare(self, view: TrainingView) -> Rows:
            return function(view)

    own: type[Relation] = Own
    own.name, own.title = name, title or name
    own.registered_function = function
    own.reads = frozenset([reads] if isinstance(reads, str) else reads)
    own.__name__, own.__doc__ = name, function.__doc__
    _known[name] = _checked(own)


def _checked(kind: Any) -> type[Relation]:
    """`kind`, if it says of itself all that a relation has to."""
    title = f"The relation '{kind.__name__}'"
    if not issubclass(kind, Relation):
        raise UsageError(f"{title} must derive from xtcl.Relation.")
    if not is_dataclass(kind):
        raise UsageError(f"{title} must be a dataclass: put @dataclass(frozen=True) before it.")
    for part in ("name", "title"):
        text = getattr(kind, part, None)
        if not isinstance(text, str) or not text:
            raise UsageError(f"{title} needs a {part}: a ClassVar[str] that is not empty.")
    reads = getattr(kind, "reads", None)
    if not isinstance(reads, frozenset) or not reads <= EVIDENCE:
        raise UsageError(
            f"{title} needs reads: a frozenset of {', '.join(sorted(EVIDENCE))}, not {reads!r}."
        )
    return cast("type[Relation]", kind)


def forget_relation(name: str) -> None:
    """Undo `register_relation`; the paper's nine stay."""
    if name in {kind.name for kind in PAPER_RELATIONS}:
        raise UsageError(f"'{name}' is one of the paper's relations and stays.")
    _known.pop(name, None)


def resolve_relations(chosen: str | Iterable[str | Relation]) -> tuple[Relation, ...]:
    """Relations from "paper" (the nine), or from names and objects in the order given."""
    if chosen == "paper":
        return tuple(kind() for kind in PAPER_RELATIONS)
    if isinstance(chosen, str):
        chosen = [chosen]
    relations = tuple(item if isinstance(item, Relation) else _named(item) for item in chosen)
    for relation in relations:
        _checked(type(relation))
    names = [relation.name for relation in relations]
    if not names or len(set(names)) < len(names):
        raise UsageError(f"relations={names} must name at least one relation, and none twice.")
    return relations


def _named(item: object) -> Relation:
    if not isinstance(item, str):
        raise UsageError(f"relations takes names and Relation objects, not {item!r}.")
    return make_relation(item)


def relation_title(name: str) -> str:
    """The title of a relation for people; the name itself where the relation is not known."""
    return _known[name].title if name in _known else name
