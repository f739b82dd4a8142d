"""Sets as Python integers, one bit a member: what their members weigh together."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

# Up to so many members are visited one by one; for more, unpacking the whole set is faster.
_FEW = 12


class Weights:
    """A weight for each bit number, growing from 0 up.

    Parameters
    ----------
    size : int
        The most weights there will be.
    """

    def __init__(self, size: int) -> None:
        self._list: list[float] = []
        self._array = np.zeros(size)

    def append(self, weight: float) -> int:
        """Add a weight; return its bit number."""
        number = len(self._list)
        self._list.append(weight)
        self._array[number] = weight
        return number

    def of(self, bits: int) -> float:
        """Return the sum of the weights of a set's members."""
        if not bits:
            return 0.0
        low = (bits & -bits).bit_length() - 1
        bits >>= low
        if bits.bit_count() <= _FEW:
            weight = self._list
            return sum(weight[low + member] for member in members(bits))
        packed = np.frombuffer(bits.to_bytes((bits.bit_length() + 7) // 8, "little"), np.uint8)
        inside = np.unpackbits(packed, count=bits.bit_length(), bitorder="little").view(np.bool_)
        return float(self._array[low : low + len(inside)][inside].sum())


def members(bits: int) -> Iterator[int]:
    """Yield the bit numbers in a set, the lowest first."""
    at = 0
    while bits:
        step = (bits & -bits).bit_length()
        bits >>= step
        at += step
        yield at - 1
