"""Attention as products."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st

from tests.rules.harness import apply, refusal, tensor
from tests.rules.strategies import WIDE_FLOATS, Strategy, example
from tvm_tensat.rules import attention as rules


@st.composite
def attentions(draw: st.DrawFn, law):
    batch, queries, keys, heads, size, wide = (draw(st.integers(1, 3)) for _ in range(6))
    dtype = draw(WIDE_FLOATS)
    operands = [
        tensor(batch, queries, heads, size, dtype=dtype),
        tensor(batch, keys, heads, size, dtype=dtype),
        tensor(batch, keys, heads, wide, dtype=dtype),
    ]
    if law is rules.attention_with_bias_as_products:
        own = draw(st.sampled_from([(batch, heads, queries, keys), (batch, 1, 1, keys)]))
        operands.append(tensor(*own, dtype=dtype))
    scale = draw(st.sampled_from([{}, {"scale": 0.25}]))
    return example(law, *operands, attrs=(scale,))


EXAMPLES: dict[str, Strategy] = {
    "attention_as_products": attentions(rules.attention_as_products),
    "attention_with_bias_as_products": attentions(rules.attention_with_bias_as_products),
}


def test_a_single_batch_is_no_axis_of_the_products():
    (made,) = apply(example(rules.attention_as_products, *(tensor(1, 5, 2, 3),) * 3)).targets
    assert made.name == "relax.reshape" and made.operands[0].axes == (1, 0, 2)


@pytest.mark.parametrize("attrs", [{"causal_mask": "TopLeft"}, {"window_size": 2}])
def test_masks_are_left_alone(attrs):
    case = example(rules.attention_as_products, *(tensor(1, 4, 2, 3),) * 3, attrs=(attrs,))
    assert refusal(case) == "a causal mask or a window"


def test_a_bias_of_lower_rank_is_left_alone():
    x = tensor(1, 4, 2, 3)
    reason = refusal(example(rules.attention_with_bias_as_products, x, x, x, tensor(4, 4)))
    assert reason is not None
