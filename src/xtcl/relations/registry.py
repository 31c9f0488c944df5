"""Relations by name: the paper's nine, and the user's own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

from xtcl.errors import UsageError, known_names
from xtcl.relations.attribute_distribution import AttributeDistribution
from xtcl.relations.attribute_label_distribution import AttributeLabelDistribution
from xtcl.relations.attribute_similarity import AttributeSimilarity
from xtcl.relations.cosine import CosineRelation
from xtcl.relations.custom import FunctionRelation, MatrixRelation, TopKFunction
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


_PAPER_NAMES = frozenset(kind.name for kind in PAPER_RELATIONS)
PRINTED: dict[str, dict[str, Any]] = {"attribute-label-distribution": {"thresholded": False}}
"""Parameters with which a relation is that of the paper's appendix, where the default is not."""


KINDS_OF_DATA = frozenset({ATTRIBUTES, LINKS, LABELS})
"""What a relation can read."""


_known: dict[str, type[Relation] | Relation] = {kind.name: kind for kind in PAPER_RELATIONS}
"""Classes, and the relations that were made of a function or a matrix."""


def relation_names() -> tuple[str, ...]:
    """Names of all known relations: the paper's nine in its order, then the user's."""
    return tuple(_known)


def make_relation(name: str, **parameters: Any) -> Relation:
    """The relation called `name`, with the given parameters and the defaults of the others."""
    if not isinstance(name, str) or name not in _known:
        raise UsageError(f"There is no relation '{name}'.{known_names(name, _known)}")
    known = _known[name]
    if isinstance(known, type):
        taken = [each.name for each in fields(known) if each.init]  # type: ignore[arg-type]
        for parameter in parameters:
            if parameter not in taken:
                others = known_names(parameter, taken) if taken else " It has none."
                raise UsageError(f"Relation '{name}' has no parameter '{parameter}'.{others}")
        return known(**parameters)
    if parameters:
        raise UsageError(
            f"Relation '{name}' was registered as {type(known).__name__} and takes no parameters, "
            f"such as {next(iter(parameters))}: register a class for them."
        )
    return known


def register_relation(
    name: str,
    prepare: type[Relation] | Callable[[TrainingView], Rows] | Any,
    *,
    title: str | None = None,
    reads: Iterable[str] | None = None,
    topk: TopKFunction | None = None,
    cacheable: bool | None = None,
) -> None:
    """Make a class, a function or a matrix known as the relation `name`.

    Args:
        name: a name that was registered before gets the new meaning; the paper's nine keep theirs.
        prepare: a class derived from `Relation`, which defines its title and what it
            reads; or a function that gets a `TrainingView` and returns a function from node indices
            [b] to similarities [b, V] in [0, 1], for a `FunctionRelation`; or a SciPy sparse matrix
            or an array [V, V] of similarities in [0, 1], for a `MatrixRelation`.
        title: how tables call a function or a matrix; by default the name.
        reads: all that a function looks at, of "attributes", "links" and "labels". It is then
            cached and stored. By default links, and it is computed for each fold.
        topk: a fast path of a function in top-k mode.
        cacheable: False for a function that names what it `reads` and must not be cached.

    """
    if not isinstance(name, str) or not name.strip():
        raise UsageError(
            f"A relation cannot be called {name!r}: give a name, a string that is not empty."
        )
    if name in _PAPER_NAMES:
        raise UsageError(
            f"There is a relation '{name}' already, one of the paper's; choose another name."
        )
    options = {"reads": reads, "topk": topk, "cacheable": cacheable}
    given: dict[str, Any] = {part: value for part, value in options.items() if value is not None}
    if callable(prepare) and not isinstance(prepare, type):
        _known[name] = _checked(FunctionRelation(prepare, name, title, **given))
        return
    if given:
        raise UsageError(
            f"{' and '.join(given)} of relation '{name}' cannot be given: only a function takes "
            "them, a class declares them itself, and a matrix reads nothing of the graph."
        )
    if isinstance(prepare, type):
        kind: type[Relation] = _checked(prepare)
        if kind.name != name:
            raise UsageError(f"The class calls itself '{kind.name}', not '{name}'.")
        _known[name] = kind
    elif isinstance(prepare, Relation):
        raise UsageError(
            f"Register the class, the function or the matrix of '{name}', or put the object "
            f"{prepare!r} into relations=[...] as it is."
        )
    else:
        _known[name] = MatrixRelation(prepare, name, title)


_Given = TypeVar("_Given")


def _checked(given: _Given) -> _Given:
    """A class or an object, if it defines all that a relation must."""
    kind = given if isinstance(given, type) else type(given)
    called = given.name if isinstance(given, FunctionRelation) else kind.__name__
    title = f"The relation '{called}'"
    if not issubclass(kind, Relation):
        raise UsageError(f"{title} must derive from xtcl.Relation.")
    if not is_dataclass(kind):
        raise UsageError(f"{title} must be a dataclass: put @dataclass(frozen=True) before it.")
    for part in ("name", "title"):
        text = getattr(given, part, None)
        if not isinstance(text, str) or not text:
            raise UsageError(f"{title} needs a {part}: a ClassVar[str] that is not empty.")
    reads = getattr(given, "reads", None)
    if not isinstance(reads, frozenset) or not reads <= KINDS_OF_DATA:
        raise UsageError(
            f"{title} needs reads: a frozenset of {', '.join(sorted(KINDS_OF_DATA))}, "
            f"not {reads!r}."
        )
    return given


def forget_relation(name: str) -> None:
    """Undo `register_relation`; the paper's nine stay."""
    if name in _PAPER_NAMES:
        raise UsageError(f"'{name}' is one of the paper's relations and stays.")
    _known.pop(name, None)


class ResolvedRelations(tuple[Relation, ...]):
    """Relations that `resolve_relations` has checked."""

    __slots__ = ()


def resolve_relations(
    chosen: str | Relation | Iterable[str | Relation], *, printed: bool = False
) -> tuple[Relation, ...]:
    """Relations from "paper" (the nine), "linked", or names and objects in the order given.

    "linked" are those that take O(E) steps with a cap, as in Section 3.3 of the paper: relations of
    attributes and labels compare linked nodes only, and PageRank is left out (docs/top-k.md). With
    `printed` relations that are given by name are the printed ones, where ours differ (`PRINTED`).
    """
    if isinstance(chosen, str) and chosen == "linked":
        chosen = [
            kind(linked_only=True) if issubclass(kind, CosineRelation) else kind()
            for kind in PAPER_RELATIONS
            if kind is not PageRank
        ]
    if isinstance(chosen, str) and chosen == "paper":
        chosen = [kind.name for kind in PAPER_RELATIONS]
    if isinstance(chosen, (str, Relation)):
        chosen = [chosen]
    if not isinstance(chosen, Iterable):
        raise UsageError(f"relations={chosen!r} must be a name, a Relation, or a list of those.")
    forms = PRINTED if printed else {}
    relations = ResolvedRelations(
        _checked(item if isinstance(item, Relation) else _named(item, forms)) for item in chosen
    )
    names = [relation.name for relation in relations]
    if not names or len(set(names)) < len(names):
        raise UsageError(f"relations={names} must name at least one relation, and none twice.")
    return relations


def _named(item: object, forms: Mapping[str, Mapping[str, Any]]) -> Relation:
    if not isinstance(item, str):
        remedy = (
            "wrap a matrix, MatrixRelation(matrix, name='...'), or give it a name with "
            "register_relation('...', matrix)"
        )
        if isinstance(item, type):
            remedy = f"make an object of the class, {item.__name__}()"
        elif callable(item):
            remedy = "wrap the function, FunctionRelation(function, name='...')"
        raise UsageError(
            f"relations takes names and Relation objects, not a {type(item).__name__}: {remedy}."
        )
    return make_relation(item, **forms.get(item, {}))


def relation_title(name: str) -> str:
    """The title of a relation for people; the name itself where the relation is not known."""
    return _known[name].title if name in _known else name
