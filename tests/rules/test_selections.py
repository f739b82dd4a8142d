"""Choices between tensors."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.rules.harness import constant, refusal, tensor, weight
from tests.rules.strategies import DTYPES, SIZES, Strategy, broadcastable, example, shapes
from tvm_tensat.rules import selections as rules


@st.composite
def choice(draw: st.DrawFn, law, condition=None, small=()):
    """Draw operands of one shape; the places in `small` broadcast to it, the condition may too."""
    shape, dtype = draw(shapes(max_rank=3, sizes=SIZES)), draw(DTYPES)
    operands = []
    for k in range(len(law.variables)):
        own = draw(broadcastable(shape)) if k in small else shape
        operands.append(tensor(*own, dtype="bool" if k == 0 else dtype))
    if condition is not None:
        operands[0] = constant(condition, *draw(broadcastable(shape)), dtype="bool")
    attrs = [{}, {}]
    if small and law in rules.where_of_broadcast:
        attrs[1] = {"shape": shape}
    return example(law, *operands, attrs=tuple(attrs))


EXAMPLES: dict[str, Strategy] = {
    "where_true": choice(rules.where_true, True, small=(2,)),
    "where_false": choice(rules.where_false, False, small=(1,)),
    "where_alike": choice(rules.where_alike, small=(0,)),
    "where_not": choice(rules.where_not, small=(2,)),
    "where_in_first": choice(rules.where_in_first, small=(0, 2)),
    "where_in_second": choice(rules.where_in_second, small=(0, 2)),
    **{law.name: choice(law, small=(place,)) for place, law in enumerate(rules.where_of_broadcast)},
}


def test_conditions_that_are_not_known_or_the_other_way_stay():
    x, y = tensor(3), tensor(3)
    for condition in (constant(False, 3, dtype="bool"), weight(3, dtype="bool")):
        assert refusal(example(rules.where_true, condition, x, y)) == "not always true"
    reason = refusal(example(rules.where_false, constant(True, dtype="bool"), x, y))
    assert reason == "not always false"


def test_a_choice_that_broadcasts_what_it_takes_stays():
    always = constant(True, 2, 3, dtype="bool")
    reason = refusal(example(rules.where_true, always, tensor(3), tensor(3)))
    assert reason is not None and "is needed" in reason
    wide = example(rules.where_alike, tensor(2, 3, dtype="bool"), tensor(3))
    assert "is needed" in str(refusal(wide))


def test_a_broadcast_that_alone_gives_the_shape_stays():
    first, _, _ = rules.where_of_broadcast
    operands = tensor(3, dtype="bool"), tensor(3), tensor(3)
    reason = refusal(example(first, *operands, attrs=({}, {"shape": [2, 3]})))
    assert reason is not None and "is needed" in reason
