"""What hypothesis draws for examples of rules: dimensions, shapes, dtypes, operands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from hypothesis import strategies as st

from tests.rules.harness import Example, Operand
from tvm_tensat.egraph.rule import Rule

Size: TypeAlias = int | str
Strategy: TypeAlias = st.SearchStrategy[Example]

SIZES = st.integers(1, 5)
SIZES_OR_EMPTY = st.sampled_from([1, 2, 3, 4, 5, 0])
SIZES_OR_SYMBOLS = st.sampled_from([1, 2, 3, 4, "n"])
FLOATS = st.sampled_from(["float32", "float64", "float16"])
WIDE_FLOATS = st.sampled_from(["float32", "float64"])
DTYPES = st.sampled_from(["float32", "float64", "float16", "int32", "int8", "bool"])
NUMBERS = st.sampled_from(["float32", "float64", "float16", "int32", "int64"])


def shapes(
    min_rank: int = 0, max_rank: int = 4, sizes: st.SearchStrategy[Size] = SIZES_OR_SYMBOLS
) -> st.SearchStrategy[tuple[Size, ...]]:
    """Draw a shape; dimensions may be symbolic unless ``sizes`` says otherwise."""
    return st.lists(sizes, min_size=min_rank, max_size=max_rank).map(tuple)


def broadcastable(shape: tuple[Size, ...]) -> st.SearchStrategy[tuple[Size, ...]]:
    """Draw a shape that broadcasts to this one: leading axes dropped, some others 1."""

    def cut(mask_and_rank: tuple[list[bool], int]) -> tuple[Size, ...]:
        mask, rank = mask_and_rank
        ones = tuple(1 if one else d for one, d in zip(mask, shape, strict=True))
        return ones[len(shape) - rank :]

    masks = st.lists(st.booleans(), min_size=len(shape), max_size=len(shape))
    return st.tuples(masks, st.integers(0, len(shape))).map(cut)


def permutations(rank: int) -> st.SearchStrategy[tuple[int, ...]]:
    """Draw an order of the axes."""
    return st.permutations(range(rank)).map(tuple)


def example(
    rule: Rule, *operands: Operand, attrs: tuple[Mapping[str, object], ...] = ()
) -> Example:
    """Return an `Example`, operands listed one by one."""
    return Example(rule, operands, attrs)


def needed(law: Rule) -> dict[str, object]:
    """Return the attributes without which the elementwise function that a law is about is none."""
    return {"min": -0.5, "max": 1.0} if "[clip]" in law.name else {}
