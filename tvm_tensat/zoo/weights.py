"""Random weights, each with a generator of its own.

The generator of a weight is seeded by the model's seed and the weight's name. So a weight does not
change when weights before it are added or removed, and no two weights are equal: equal constants
would merge, and an optimizer would look better than it is.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def normal(
    seed: int, name: str, shape: Sequence[int], std: float, mean: float = 0.0
) -> NDArray[np.float32]:
    """Draw a float32 tensor of this shape from a normal distribution."""
    values = _generator(seed, name).standard_normal(tuple(shape), dtype=np.float32)
    values *= np.float32(std)
    values += np.float32(mean)
    return values


def uniform(
    seed: int, name: str, shape: Sequence[int], low: float, high: float
) -> NDArray[np.float32]:
    """Draw a float32 tensor of this shape uniformly from ``[low, high)``."""
    values = _generator(seed, name).random(tuple(shape), dtype=np.float32)
    values *= np.float32(high - low)
    values += np.float32(low)
    return values


def _generator(seed: int, name: str) -> np.random.Generator:
    return np.random.default_rng([seed, zlib.crc32(name.encode())])
