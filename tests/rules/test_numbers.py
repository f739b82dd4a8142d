"""Numbers written in place of an operand."""

from __future__ import annotations

from hypothesis import strategies as st
from tvm import tirx

from tests.rules.harness import refusal, tensor, weight
from tests.rules.strategies import Strategy, example, shapes
from tvm_tensat.rules import numbers as rules


@st.composite
def with_number(draw: st.DrawFn, law):
    """Draw a number on either side; powers of negative numbers are not compared.

    Not of float64: TVM's functions that build calls take Python's numbers for float32.
    """
    dtype = draw(st.sampled_from(["float32", "float16"]))
    number = tirx.FloatImm(dtype, draw(st.sampled_from([1.5, 2.0, -3.0, 0.5])))
    place = draw(st.sampled_from(["x1", "x2"]))
    bounds = {}
    if "power" in law.name:
        place, bounds = "x2", {"low": 0.5, "high": 2.0}
    x = tensor(*draw(shapes(1, 3)), dtype=dtype, **bounds)
    return example(law, x, attrs=({place: number},))


EXAMPLES: dict[str, Strategy] = {law.name: with_number(law) for law in rules.number_as_constant}


def test_numbers_that_meet_weights_are_folded_and_stay():
    law = rules.number_as_constant[0]
    case = example(law, weight(3), attrs=({"x2": tirx.FloatImm("float32", 1.5)},))
    assert refusal(case) == "an operand is a weight"
