"""The errors a user can meet. Each is a sentence that names the thing, the place and the remedy."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar, TypeGuard

if TYPE_CHECKING:
    from xtcl.not_fitted import NotFittedError as NotFittedError


class XTCLError(Exception):
    """Base of every error that xtcl raises on purpose; the command line exits with `exit_code`."""

    exit_code: ClassVar[int] = 1


class UsageError(XTCLError, ValueError):
    """A parameter or option has a value that cannot be used."""

    exit_code = 2


class NotAvailableError(UsageError, AttributeError):
    """The task of a model has no use for this method; `hasattr` returns False for it."""


class DataError(XTCLError, ValueError):
    """The data cannot be used as they are."""

    exit_code = 3


class BudgetError(XTCLError):
    """The work does not fit the memory the user allowed."""

    exit_code = 4


class RankError(XTCLError):
    """One of the processes that share a fit is gone."""


def __getattr__(name: str) -> Any:
    """Import NotFittedError when it is first used: it needs scikit-learn, which takes a second."""
    if name != "NotFittedError":
        raise AttributeError(f"module 'xtcl.errors' has no attribute '{name}'")
    from xtcl.not_fitted import NotFittedError

    return NotFittedError


def check_is_fitted(
    estimator: object, attribute: str = "fitted_task_", call: str = "fit(graph, split)"
) -> None:
    """Raise `NotFittedError` if `estimator` lacks the attribute that `call` sets."""
    if not hasattr(estimator, attribute):
        from xtcl.not_fitted import NotFittedError

        kind = type(estimator).__name__
        raise NotFittedError(f"This {kind} is not fitted yet; call {call} first.")


def is_whole(value: object) -> TypeGuard[int]:
    """Whether `value` is an integer, of Python or NumPy, and no bool."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def check_whole(name: str, value: object, least: int) -> int:
    """`value` as an int; refuses what is not a whole number of at least `least`."""
    if not is_whole(value) or value < least:
        raise UsageError(f"{name}={value!r} must be a whole number of at least {least}.")
    return int(value)


def is_number(value: object) -> TypeGuard[float]:
    """Whether `value` is a real number, of Python or NumPy, and no bool."""
    return isinstance(value, Real) and not isinstance(value, bool)


def check_number(name: str, value: object, low: float, high: float) -> float:
    """`value` as a float; refuses what is not a number from `low` to `high`."""
    if not is_number(value) or not low <= float(value) <= high:
        raise UsageError(f"{name}={value!r} must be a number from {low} to {high}.")
    return float(value)


def first_few(items: Iterable[object], limit: int = 5) -> str:
    """The first offenders as text: '3, 8, 13, ... (12 in all)'."""
    everything = list(items)
    shown = ", ".join(str(item) for item in everything[:limit])
    return shown if len(everything) <= limit else f"{shown}, ... ({len(everything)} in all)"


def first_line(error: BaseException) -> str:
    """What an error of other code says, as a part of a sentence."""
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out. On a CPU torch raises a RuntimeError with one of these texts."""
    text = str(error)
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError) and ("out of memory" in text or "allocate memory" in text)
    )


def known_names(name: object, known: Iterable[str]) -> str:
    """The end of a message about an unknown name: the closest known one, and all of them."""
    names = list(known)
    close = get_close_matches(str(name).lower(), names, n=1)
    hint = f" Did you mean '{close[0]}'?" if close else ""
    return f"{hint} Known: {', '.join(names)}."
