"""Products whose axes are in another order, or grouped otherwise."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.rules.harness import refusal, tensor, weight
from tests.rules.strategies import DTYPES, SIZES, SIZES_OR_SYMBOLS, Strategy, example
from tvm_tensat.rules import product_axes as rules

BATCHES = st.sampled_from([(), (2,), ("n",), (3, 2)])
NUMERIC = DTYPES.filter(lambda dtype: dtype != "bool")


def swapped(rank: int) -> dict[str, object]:
    return {"axes": (*range(rank - 2), rank - 1, rank - 2)}


@st.composite
def transposed(draw: st.DrawFn, law):
    batch, dtype = draw(BATCHES), draw(NUMERIC)
    m, k, n = (draw(SIZES_OR_SYMBOLS) for _ in range(3))
    own = draw(st.sampled_from([(), batch]))
    if law is rules.transpose_of_a_product:
        attrs = (swapped(2 + len(batch)),)
        return example(
            law, tensor(*batch, m, k, dtype=dtype), tensor(*own, k, n, dtype=dtype), attrs=attrs
        )
    attrs = ({}, swapped(2 + len(batch)), swapped(2 + len(own)))
    return example(
        law, tensor(*batch, k, m, dtype=dtype), tensor(*own, n, k, dtype=dtype), attrs=attrs
    )


@st.composite
def permuted(draw: st.DrawFn, law):
    rank, dtype = draw(st.integers(2, 4)), draw(NUMERIC)
    shape = [draw(SIZES_OR_SYMBOLS) for _ in range(rank)]
    axes = {"axes": (*draw(st.permutations(range(rank - 1))), rank - 1)}
    attrs = ({}, axes) if law is rules.product_of_a_permuted_operand else (axes,)
    w = weight(shape[-1], draw(SIZES_OR_SYMBOLS), dtype=dtype)
    return example(law, tensor(*shape, dtype=dtype), w, attrs=attrs)


@st.composite
def flattened(draw: st.DrawFn):
    batch, dtype = draw(st.sampled_from([(2,), (3, 2), (1,), (0,)])), draw(NUMERIC)
    inner = draw(SIZES_OR_SYMBOLS)
    x = tensor(*batch, draw(SIZES), inner, dtype=dtype)
    return example(rules.product_of_flattened_rows, x, weight(inner, draw(SIZES), dtype=dtype))


EXAMPLES: dict[str, Strategy] = {
    "transpose_of_a_product": transposed(rules.transpose_of_a_product),
    "product_of_transposes": transposed(rules.product_of_transposes),
    "product_of_a_permuted_operand": permuted(rules.product_of_a_permuted_operand),
    "permuted_rows_of_a_product": permuted(rules.permuted_rows_of_a_product),
    "product_of_flattened_rows": flattened(),
}


def test_permutations_of_the_inner_axis_are_refused():
    attrs = ({}, {"axes": (0, 2, 1)})
    case = example(rules.product_of_a_permuted_operand, tensor(2, 3, 4), weight(3, 2), attrs=attrs)
    assert "moves the inner axis" in str(refusal(case))


def test_permuted_batches_are_no_transpose():
    case = example(
        rules.transpose_of_a_product, tensor(2, 2, 2), tensor(2, 2), attrs=({"axes": (1, 0, 2)},)
    )
    assert refusal(case) == "not a transpose of each matrix"


def test_symbolic_rows_cannot_be_flattened():
    case = example(rules.product_of_flattened_rows, tensor(2, "n", 3), weight(3, 2))
    assert "symbolic: n" in str(refusal(case))
