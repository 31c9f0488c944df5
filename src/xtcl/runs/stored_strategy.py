"""A strategy of positives in `model.json`: its class by name, and its parameters.

A strategy of xtcl is made again as it was. Code is not stored, so of a user's own class only the
names are kept: the model is loaded with a `MissingStrategy` in its place, predicts as before, and
refuses to be fitted. Runs of earlier versions have the name of the strategy alone.
"""

from __future__ import annotations

from typing import Any

from xtcl.config import FitConfig, to_builtin
from xtcl.errors import UsageError
from xtcl.graph.validation import to_array
from xtcl.sampling import (
    AllLabelPositives,
    LearnedPositives,
    MixedPositives,
    NaivePositives,
    SameLabelPositives,
    UniformPositives,
)
from xtcl.sampling.strategies import STRATEGIES, PositiveTable
from xtcl.sampling.strategy import PositiveSource, PositiveStrategy

_KINDS: dict[str, type[PositiveStrategy]] = {
    kind.__name__: kind
    for kind in (
        AllLabelPositives,
        LearnedPositives,
        MixedPositives,
        NaivePositives,
        SameLabelPositives,
        UniformPositives,
    )
}
"""The classes that are made again."""


class MissingStrategy(PositiveStrategy):
    """Stands in a loaded model for a user's own strategy, whose code is not in the files."""

    def __init__(self, kind: str, called: str) -> None:
        self.kind = kind
        self.called = called

    @property
    def name(self) -> str:  # type: ignore[override]
        """The name of the strategy that was fitted with."""
        return self.called

    def configure(self, config: FitConfig) -> FitConfig:
        """Refuse a fit: the code that chooses the positives is not stored."""
        raise self._refusal()

    def table(self, source: PositiveSource, number: int) -> PositiveTable:
        """Refuse, as `configure` does."""
        raise self._refusal()

    def _refusal(self) -> UsageError:
        return UsageError(
            f"There is no strategy '{self.called}' of positives in xtcl. This model was loaded, "
            f"and it is a class of its author's own ({self.kind}), whose code is not saved: before "
            f"you fit, call set_params(positives={self.kind}(...)), or choose another strategy."
        )


def strategy_json(strategy: PositiveStrategy) -> dict[str, Any]:
    """What `read_strategy` makes the strategy again from."""
    kind = type(strategy)
    if isinstance(strategy, MissingStrategy):
        return {"class": strategy.kind, "name": strategy.called}
    if _KINDS.get(kind.__name__) is not kind:
        return {"class": kind.__name__, "name": strategy.name}
    parameters = strategy.get_params(deep=False)
    return {
        "class": kind.__name__,
        "name": strategy.name,
        "parameters": {name: _plain(name, value) for name, value in parameters.items()},
    }


def _plain(name: str, value: Any) -> Any:
    if name == "parts":
        return [strategy_json(p) if isinstance(p, PositiveStrategy) else p for p in value]
    if name == "truth" and value is not None:
        return to_array(value, "The true labels").tolist()
    return to_builtin(value)


def read_strategy(stored: object) -> object:
    """The parameter `positives` of a saved model: a number, a name, or a strategy."""
    if isinstance(stored, str) and stored not in STRATEGIES and "+" not in stored:
        return MissingStrategy(stored, stored)  # in runs that have the name alone
    if not isinstance(stored, dict):
        return stored
    if "parameters" not in stored:
        return MissingStrategy(str(stored["class"]), str(stored["name"]))
    parameters = dict(stored["parameters"])
    if "parts" in parameters:
        parameters["parts"] = [read_strategy(part) for part in parameters["parts"]]
    return _KINDS[stored["class"]](**parameters)
