"""Which rows of a matrix are equal, by one number for each.

Numbers of 64 bits that depend on all of a row, well mixed, differ where rows do but for a chance of
a few in a million with a million rows. So they are sorted in place of the rows, and then every row
is compared with one of the same number.

Citation of the mixing: Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators",
OOPSLA 2014.
"""

from __future__ import annotations

import torch
from torch import Tensor


def kinds_by_number(rows: Tensor) -> Tensor | None:
    """0, 1, ... for each row of floats, the same for rows whose bits are, int64 [V].

    None where two different rows have the same number. Cost: O(V D) and a sort of V numbers.
    """
    bits = rows.view(torch.int32)
    number = torch.zeros(len(rows), dtype=torch.int64, device=rows.device)
    for column in bits.T:
        number = mixed(number + column)
    kinds, kind = torch.unique(number, return_inverse=True)
    some = torch.empty_like(kinds)
    some[kind] = torch.arange(len(rows), device=rows.device)  # whoever of the kind comes last
    return kind if torch.equal(bits, bits[some[kind]]) else None


def mixed(number: Tensor) -> Tensor:
    """Another number for each, all of whose bits hang on all of the bits of the first."""
    number = number + _signed(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        number = (number ^ _shifted(number, shift)) * _signed(factor)
    return number ^ _shifted(number, 31)


def _shifted(number: Tensor, by: int) -> Tensor:
    """To the right, with zeros from the left whatever the sign."""
    return (number >> by) & ((1 << (64 - by)) - 1)


def _signed(number: int) -> int:
    """The whole number with the same 64 bits that torch can hold."""
    return number - 2**64 if number >= 2**63 else number
