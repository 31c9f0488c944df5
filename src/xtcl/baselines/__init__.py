"""Methods by name: XTCL, the controls that belong to every comparison, and the paper's competitors.

A method is imported when it is asked for, so that a fit loads none of them.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping

from xtcl.baselines.method import Method
from xtcl.errors import UsageError, known_names

__all__ = ["METHODS", "Method", "make_method"]

HOMES = {
    "xtcl-gcn": "xtcl.baselines.method:XTCLGCN",
    "xtcl-gat": "xtcl.baselines.method:XTCLGAT",
    "sscl": "xtcl.lab.methods.contrastive:SSCL",
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
}
"""Where the class of each method lives, as "module:class"."""

TIMED_ONLY = "naive-xgboost"
"""A method of `xtcl reproduce time` that no task is scored on."""


class Methods(Mapping[str, type[Method]]):
    """The classes of all methods by name, each imported when it is looked up."""

    def __getitem__(self, name: str) -> type[Method]:
        module, kind = HOMES[name].split(":")
        found: type[Method] = getattr(importlib.import_module(module), kind)
        return found

    def __contains__(self, name: object) -> bool:
        return name in HOMES

    def __iter__(self) -> Iterator[str]:
        return iter(HOMES)

    def __len__(self) -> int:
        return len(HOMES)


METHODS = Methods()


def make_method(name: str) -> Method:
    """The method called `name`, in any case; an unknown name meets the closest known one."""
    if name.lower() == TIMED_ONLY:
        raise UsageError(
            "Naive XGBoost has no task to be scored on, it is only timed: "
            "run `xtcl reproduce time`."
        )
    if name.lower() not in METHODS:
        raise UsageError(f"There is no method '{name}'.{known_names(name, METHODS)}")
    return METHODS[name.lower()]()
