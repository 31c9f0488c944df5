"""Methods by name."""

from __future__ import annotations

from xtcl.baselines.asp import ASP
from xtcl.baselines.ceiling_scl import CeilingSCL
from xtcl.baselines.cocos import CoCoS
from xtcl.baselines.dgcn import DGCN
from xtcl.baselines.dgi import DGI
from xtcl.baselines.directed import DirectedReading
from xtcl.baselines.gat import GAT
from xtcl.baselines.gcn import GCN
from xtcl.baselines.logistic import Logistic
from xtcl.baselines.meta_pn import MetaPN
from xtcl.baselines.method import Method
from xtcl.baselines.naive_tcl import NaiveTCL
from xtcl.baselines.naive_xgboost import NaiveXGBoost
from xtcl.baselines.polygcl import PolyGCL
from xtcl.baselines.propagation import PropagationMethod
from xtcl.baselines.scl import SCL
from xtcl.baselines.sscl import SSCL
from xtcl.baselines.subgraph import SubGraph
from xtcl.baselines.sugrl import SUGRL
from xtcl.baselines.xtcl import XTCLGAT, XTCLGCN
from xtcl.errors import UsageError, known_names

METHODS: dict[str, type[Method]] = {
    kind.name: kind
    for kind in (
        XTCLGCN,
        XTCLGAT,
        SSCL,
        SCL,
        CeilingSCL,
        NaiveTCL,
        DGI,
        SUGRL,
        ASP,
        PolyGCL,
        GCN,
        GAT,
        DGCN,
        DirectedReading,
        MetaPN,
        CoCoS,
        SubGraph,
        Logistic,
        PropagationMethod,
    )
}


def make_method(name: str) -> Method:
    """The method called `name`, in any case; an unknown name meets the closest known one."""
    if name.lower() == NaiveXGBoost.name:
        raise UsageError(
            f"{NaiveXGBoost.title} has no task to be scored on, it is only timed: "
            "run `xtcl reproduce time`."
        )
    kind = METHODS.get(name.lower())
    if kind is None:
        raise UsageError(f"There is no method '{name}'.{known_names(name, METHODS)}")
    return kind()
