"""Repeated tensors, and products that need not see them."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.rules.harness import apply, refusal, tensor
from tests.rules.strategies import DTYPES, NUMBERS, SIZES, Strategy, example, shapes
from tvm_tensat.rules import repetition as rules

LEFT, RIGHT = rules.product_of_broadcast_batches


@st.composite
def tiled(draw: st.DrawFn, law, once):
    shape = draw(shapes(1, 3, sizes=SIZES))
    repeats = [1] * len(shape)
    if not once:
        at = draw(st.integers(0, len(shape) - 1))
        shape = (*shape[:at], 1, *shape[at + 1 :])
        repeats[at] = draw(SIZES)
        repeats = [draw(SIZES), *repeats][draw(st.integers(0, 1)) :]
    return example(law, tensor(*shape, dtype=draw(DTYPES)), attrs=({"repeats": repeats},))


@st.composite
def repeated(draw: st.DrawFn):
    shape = draw(shapes(1, 3, sizes=SIZES))
    attrs = {"repeats": draw(SIZES), "axis": draw(st.integers(-len(shape), len(shape) - 1))}
    return example(rules.repeat_as_broadcast, tensor(*shape, dtype=draw(DTYPES)), attrs=(attrs,))


@st.composite
def broadcast_batches(draw: st.DrawFn, law):
    batch = draw(shapes(1, 2, sizes=SIZES))
    own = draw(st.sampled_from([(), (1,) * len(batch), batch]))
    n, k, m = (draw(SIZES) for _ in range(3))
    dtype, left = draw(NUMBERS), law is LEFT
    a = tensor(*(own if left else batch), n, k, dtype=dtype)
    b = tensor(*(batch if left else own), k, m, dtype=dtype)
    return example(law, a, b, attrs=({}, {"shape": (*batch, *((n, k) if left else (k, m)))}))


@st.composite
def grouped_queries(draw: st.DrawFn, law):
    batch, heads, count = draw(shapes(0, 1, sizes=SIZES)), draw(SIZES), draw(st.integers(1, 3))
    n, k, m = (draw(SIZES) for _ in range(3))
    dtype = draw(NUMBERS)
    turned = law is rules.product_with_repeated_transposes
    own = (m, k) if turned else (k, m)
    reshape = {"shape": (*batch, heads * count, *own)}
    broadcast = {"shape": (*batch, heads, count, *own)}
    axes = list(range(len(batch) + 1))
    permute = [{"axes": [*axes, len(axes) + 1, len(axes)]}] if turned else []
    operands = (
        tensor(*batch, heads * count, n, k, dtype=dtype),
        tensor(*batch, heads, 1, *own, dtype=dtype),
    )
    return example(law, *operands, attrs=({}, *permute, reshape, broadcast))


EXAMPLES: dict[str, Strategy] = {
    "tile_once": tiled(rules.tile_once, True),
    "tile_as_broadcast": tiled(rules.tile_as_broadcast, False),
    "repeat_as_broadcast": repeated(),
    **{law.name: broadcast_batches(law) for law in (LEFT, RIGHT)},
    "product_with_repeated_batches": grouped_queries(rules.product_with_repeated_batches),
    "product_with_repeated_transposes": grouped_queries(rules.product_with_repeated_transposes),
}


def test_tiles_of_longer_axes_stay():
    attrs = ({"repeats": [2]},)
    assert refusal(example(rules.tile_once, tensor(1), attrs=attrs)) == "tiled more than once"
    reason = refusal(example(rules.tile_as_broadcast, tensor(3), attrs=attrs))
    assert reason == "an axis of more than one is tiled"


def test_broadcast_rows_stay():
    case = example(LEFT, tensor(2, 1, 3), tensor(3, 4), attrs=({}, {"shape": (2, 5, 3)}))
    assert refusal(case) == "rows or columns are broadcast"


def test_a_broadcast_that_alone_gives_the_batches_stays():
    case = example(RIGHT, tensor(2, 3), tensor(3, 4), attrs=({}, {"shape": (5, 3, 4)}))
    assert "is needed" in str(refusal(case))


def grouped(broadcast, reshape, q=(1, 4, 5, 3), b=(1, 2, 1, 3, 6)):
    attrs = ({}, {"shape": reshape}, {"shape": broadcast})
    return example(rules.product_with_repeated_batches, tensor(*q), tensor(*b), attrs=attrs)


def test_each_head_of_keys_meets_the_rows_of_its_queries():
    (made,) = apply(grouped((1, 2, 2, 3, 6), (1, 4, 3, 6))).targets
    assert [operand.shape for operand in made.operands[0].operands] == [(1, 2, 10, 3), (1, 2, 3, 6)]


def test_heads_that_alternate_are_not_grouped():
    """[a b a b]: the new axis is in front of the heads, so that neighbours differ."""
    case = grouped((1, 2, 2, 3, 6), (1, 4, 3, 6), b=(1, 1, 2, 3, 6))
    assert refusal(case) is not None


def test_batches_that_differ_are_not_grouped():
    wide = grouped((1, 2, 2, 3, 6), (1, 4, 3, 6), q=(7, 4, 5, 3))
    assert refusal(wide) == "the batches differ"
    other = grouped((2, 2, 2, 3, 6), (2, 4, 3, 6), q=(2, 4, 5, 3))
    assert refusal(other) == "another axis is broadcast"
