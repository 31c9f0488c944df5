"""Methods by name: XTCL, the controls that belong to every comparison, and the paper's competitors.

A method is imported when it is first used, so that a fit loads none of them.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from xtcl.errors import UsageError, known_names

if TYPE_CHECKING:
    from xtcl.baselines.method import Method

__all__ = ["METHODS", "Method", "make_method", "register_method"]

HOMES = {
    "xtcl-gcn": "xtcl.baselines.method:XTCLGCN",
    "xtcl-gat": "xtcl.baselines.method:XTCLGAT",
    "xtcl-paper": "xtcl.baselines.method:XTCLPaper",
    "xtcl-paper-gat": "xtcl.baselines.method:XTCLPaperGAT",
    "sscl": "xtcl.baselines.contrastive:SSCL",
    "sscl-all": "xtcl.lab.methods.contrastive:SSCLAll",
    "scl": "xtcl.lab.methods.contrastive:SCL",
    "ceiling-scl": "xtcl.lab.methods.contrastive:CeilingSCL",
    "naive-tcl": "xtcl.lab.methods.contrastive:NaiveTCL",
    "dgi": "xtcl.lab.methods.dgi:DGI",
    "sugrl": "xtcl.lab.methods.sugrl:SUGRL",
    "asp": "xtcl.lab.methods.asp:ASP",
    "polygcl": "xtcl.lab.methods.polygcl:PolyGCL",
    "gcn": "xtcl.baselines.gcn:GCN",
    "gat": "xtcl.baselines.gat:GAT",
    "dgcn": "xtcl.lab.methods.dgcn:DGCN",
    "meta-pn": "xtcl.lab.methods.meta_pn:MetaPN",
    "cocos": "xtcl.lab.methods.cocos:CoCoS",
    "subgraph": "xtcl.lab.methods.subgraph:SubGraph",
    "logistic": "xtcl.baselines.logistic:Logistic",
    "propagation": "xtcl.baselines.propagation:PropagationMethod",
    "trees": "xtcl.baselines.trees:Trees",
    "trees-neighbours": "xtcl.baselines.trees:TreesNeighbours",
}
"""Where the class of each method lives, as "module:class"."""

TIMED_ONLY = "naive-xgboost"
"""A method of `xtcl reproduce time` that no task is scored on."""


_REGISTERED: dict[str, type[Method]] = {}


class Methods(Mapping[str, "type[Method]"]):
    """The classes of all methods by name, each imported when it is looked up.

    Those that were registered come last.
    """

    def __getitem__(self, name: str) -> type[Method]:
        if name in _REGISTERED:
            return _REGISTERED[name]
        module, kind = HOMES[name].split(":")
        found: type[Method] = getattr(importlib.import_module(module), kind)
        return found

    def __contains__(self, name: object) -> bool:
        return name in HOMES or name in _REGISTERED

    def __iter__(self) -> Iterator[str]:
        return iter([*HOMES, *_REGISTERED])

    def __len__(self) -> int:
        return len(HOMES) + len(_REGISTERED)


METHODS = Methods()


def make_method(name: str) -> Method:
    """The method called `name`, in upper or lower case.

    For an unknown name the error suggests the closest known one.
    """
    if not isinstance(name, str):
        raise UsageError(f"There is no method {name!r}: give one of the names of `xtcl methods`.")
    if name.lower() == TIMED_ONLY:
        raise UsageError(
            "Naive XGBoost has no task to be scored on, it is only timed: "
            "run `xtcl reproduce time`."
        )
    if name.lower() not in METHODS:
        raise UsageError(f"There is no method '{name}'.{known_names(name, METHODS)}")
    return METHODS[name.lower()]()


def register_method(name: str, method: Any, *, tasks: Iterable[str] | None = None) -> None:
    """Give a method of your own a name, for `make_method`, `evaluate` and `METHODS`.

    `method` is one of

    - a function of the training data, which may also take `task`, `seed`, `device` and `progress`;
    - a `Method`, or a class of it; it needs no more than `fit`;
    - an `XTCL` with parameters of your own;
    - a classifier of scikit-learn, which learns from the attributes of the labelled nodes.

    It returns class probabilities [V, C] or class codes [V] for nodes, a function that scores
    pairs [2, n] for links. `tasks` are those it supports, by default both.
    Registering a name again replaces the method. Names of built-in methods cannot be taken.
    """
    from xtcl.baselines.custom_method import custom_method

    if not isinstance(name, str):
        raise UsageError(f"A method cannot be called {name!r}: give a name, a string.")
    key = name.lower()
    if key in HOMES or key == TIMED_ONLY:
        raise UsageError(f"'{name}' is the name of a built-in method: choose another one.")
    if not key.strip() or "," in key:
        raise UsageError(f"A method cannot be called '{name}': give a name without commas.")
    _REGISTERED[key] = custom_method(method, key, tasks)


def forget_method(name: str) -> None:
    """Take back what `register_method` registered."""
    _REGISTERED.pop(name.lower(), None)


def __getattr__(name: str) -> Any:
    """Import `Method` on first use: it imports torch, which a list of names does not need."""
    if name != "Method":
        raise AttributeError(f"module 'xtcl.baselines' has no attribute '{name}'")
    from xtcl.baselines.method import Method

    return Method
