"""Constant tensors told apart by what they hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["Weight", "WeightTable", "array_of", "scalar_value"]

_SAMPLES = 16


@dataclass(frozen=True)
class Weight:
    """A constant and, where all its elements are one value, that value."""

    constant: Any
    splat: object


def array_of(constant: Any) -> np.ndarray[Any, Any]:
    """Return a constant's elements, read-only, without copying where numpy knows the dtype."""
    try:
        array: np.ndarray[Any, Any] = np.from_dlpack(constant.value)
    except (RuntimeError, TypeError, BufferError):  # 16-bit brain floats, tensors of a device
        array = constant.value.numpy()
    array.flags.writeable = False
    return array


def scalar_value(array: np.ndarray[Any, Any]) -> object:
    """Return a rank-0 array as Python's bool, int or float, None for other kinds of dtype."""
    kind = array.dtype.kind
    if kind == "b":
        return bool(array)
    if kind in "iu":
        return int(array)
    if kind == "f" or array.dtype.name.startswith(("bfloat", "float")):
        return float(array)
    return None


class WeightTable:
    """Finds the constant that was seen first with this dtype, shape and content."""

    def __init__(self) -> None:
        self._by_sample: dict[object, list[tuple[np.ndarray[Any, Any], Weight]]] = {}

    def find(self, constant: Any) -> Weight:
        """Return the first constant seen that holds the same bytes as this one.

        Constants are compared in full only where a few sampled elements agree, so that large
        models are not hashed.
        """
        array = array_of(constant)
        width = max(array.itemsize, 1)
        flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8).reshape(array.size, width)
        picks = [i * (len(flat) - 1) // (_SAMPLES - 1) for i in range(_SAMPLES)]
        sample = flat[picks].tobytes() if len(flat) else b""
        key = (str(constant.value.dtype), tuple(constant.value.shape), sample)
        known = self._by_sample.setdefault(key, [])
        for other, weight in known:
            if np.array_equal(other, flat):
                return weight
        splat = None
        if len(flat) and sample == flat[0].tobytes() * _SAMPLES and bool((flat == flat[0]).all()):
            splat = scalar_value(array.reshape(-1)[0])
        weight = Weight(constant, splat)
        known.append((flat, weight))
        return weight
