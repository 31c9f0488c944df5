"""A costly function of tensors that do not change from epoch to epoch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

import torch
from torch import Tensor, nn

T = TypeVar("T")


class Remembered(Generic[T]):
    """The latest result, given again as long as it is asked for with the same tensors.

    The same are the same objects that nobody has written to since. torch counts writes in place;
    only those that bypass it (through a NumPy view of the memory, through `.data`) stay unseen.
    Copies and pickles remember nothing: the data of a fit are no part of its model.
    """

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Let go of the result and of the tensors it was made of."""
        self._tensors: tuple[Tensor, ...] = ()
        self._state: object = None
        self._result: T | None = None

    def __reduce__(self) -> tuple[type[Remembered[T]], tuple[()]]:
        return type(self), ()

    def get(self, compute: Callable[[], T], tensors: tuple[Tensor, ...], other: object = None) -> T:
        """`compute()`, which must depend on nothing but `tensors` and `other`."""
        # What inference mode makes is of no use to a later backward pass.
        state = (other, torch.is_inference_mode_enabled(), [_writes(each) for each in tensors])
        same = len(tensors) == len(self._tensors) and all(
            tensor is known for tensor, known in zip(tensors, self._tensors, strict=True)
        )
        if self._result is None or not same or state != self._state:
            self.forget()  # before there is a second result beside it
            self._result = compute()
            self._tensors, self._state = tensors, state
        return self._result


def forget(module: nn.Module) -> None:
    """Let `module` and all its parts go of what they remember."""
    for part in module.modules():
        for value in vars(part).values():
            if isinstance(value, Remembered):
                value.forget()


def _writes(tensor: Tensor) -> int:
    return 0 if tensor.is_inference() else tensor._version  # torch does not count for these
